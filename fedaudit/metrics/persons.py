"""How many people an attack exposes, by the strings of each person that it finds."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from fedaudit.api.estimates import Estimate


@dataclass(frozen=True, slots=True)
class ExposedPersons:
    """The exposed persons, with how many kinds of personal data exposed each."""

    kinds: Mapping[str, int]
    """How many kinds of data were found of each exposed person."""
    people: int
    """How many people have at least one string that was looked for."""

    @property
    def mean_kinds(self) -> float:
        """The mean number of kinds of data per exposed person; 0 if no one is exposed."""
        return sum(self.kinds.values()) / len(self.kinds) if self.kinds else 0.0

    @property
    def most_kinds(self) -> int:
        """The number of kinds of data of the person exposed most; 0 if no one is exposed."""
        return max(self.kinds.values(), default=0)


def subjects(records: Iterable[tuple[str, Iterable[str]]]) -> dict[str, str]:
    """Return the subject of each string, from (subject, strings) of records.

    Strings in the records of several subjects are left out, because they identify none of them.
    """
    holders: dict[str, set[str]] = defaultdict(set)
    for subject, strings in records:
        for string in strings:
            holders[string].add(subject)
    return {string: min(owners) for string, owners in sorted(holders.items()) if len(owners) == 1}


def exposed(
    strings: Collection[str], labels: Mapping[str, str], subject_of: Mapping[str, str]
) -> ExposedPersons:
    """Return the persons exposed by the found `strings`; `labels` has all that were looked for."""
    kinds: dict[str, set[str]] = defaultdict(set)
    for string in strings:
        if string in subject_of and string in labels:
            kinds[subject_of[string]].add(labels[string])
    people = {subject_of[string] for string in labels if string in subject_of}
    return ExposedPersons({person: len(k) for person, k in sorted(kinds.items())}, len(people))


def expected_persons(chances: Mapping[str, float], subject_of: Mapping[str, str]) -> Estimate:
    """Return how many people are expected to be exposed, from the chance of each string.

    The value takes a person's strings as independent. The bounds hold for any dependence between
    them (Fréchet): the chance that a person is exposed is at least that of their likeliest string,
    and at most the sum over all their strings.
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
