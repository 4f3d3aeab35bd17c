"""How many people an attack exposes, from the strings of each that it finds."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from fedaudit.api.estimates import Estimate


@dataclass(frozen=True, slots=True)
class ExposedPersons:
    """Who was exposed, by how many kinds of personal data each."""

    kinds: Mapping[str, int]
    """How many kinds of data were found of each exposed person."""
    people: int
    """People with at least one string that was looked for."""

    @property
    def mean_kinds(self) -> float:
        """Kinds of data of an exposed person on average; 0 where nobody is."""
        return sum(self.kinds.values()) / len(self.kinds) if self.kinds else 0.0

    @property
    def most_kinds(self) -> int:
        """Kinds of data of whoever is exposed most."""
        return max(self.kinds.values(), default=0)


def subjects(records: Iterable[tuple[str, Iterable[str]]]) -> dict[str, str]:
    """Return the subject of each string, from (subject, strings) of records.

    Strings in the records of several subjects are left out: they are nobody's in particular.
    """
    holders: dict[str, set[str]] = defaultdict(set)
    for subject, strings in records:
        for string in strings:
            holders[string].add(subject)
    return {string: min(owners) for string, owners in sorted(holders.items()) if len(owners) == 1}


def exposed(
    strings: Collection[str], labels: Mapping[str, str], subject_of: Mapping[str, str]
) -> ExposedPersons:
    """Return who is exposed by `strings`, the found ones; `labels` has all that were sought."""
    kinds: dict[str, set[str]] = defaultdict(set)
    for string in strings:
        if string in subject_of and string in labels:
            kinds[subject_of[string]].add(labels[string])
    people = {subject_of[string] for string in labels if string in subject_of}
    return ExposedPersons({person: len(k) for person, k in sorted(kinds.items())}, len(people))


def expected_persons(chances: Mapping[str, float], subject_of: Mapping[str, str]) -> Estimate:
    """Return how many people are expected to be exposed, from the chance of each string.

    The value takes a person's strings as independent. The bounds hold however they depend on each
    other (Fréchet): somebody is exposed at least as often as by their likeliest string, and at most
    as often as all of theirs together.
    """
    by_person: dict[str, list[float]] = defaultdict(list)
    for string, chance in sorted(chances.items()):
        if string in subject_of:
            by_person[subject_of[string]].append(min(1.0, max(0.0, chance)))
    values = [1 - math.prod(1 - p for p in group) for group in by_person.values()]
    least = math.fsum(max(group) for group in by_person.values())
    most = math.fsum(min(1.0, math.fsum(group)) for group in by_person.values())
    value = math.fsum(values)
    return Estimate(min(max(value, least), most), least, most)
