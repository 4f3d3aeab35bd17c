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
    """Of each exposed person, how many kinds of their data were found."""
    people: int
    """People of whom something was looked for."""

    @property
    def mean_kinds(self) -> float:
        """Kinds of data of an exposed person on average; 0 where nobody is."""
        return sum(self.kinds.values()) / len(self.kinds) if self.kinds else 0.0

    @property
    def most_kinds(self) -> int:
        """Kinds of data of whoever is exposed most."""
        return max(self.kinds.values(), default=0)


def subjects(records: Iterable[tuple[str, Iterable[str]]]) -> dict[str, str]:
    """Return whose each string is, from (subject, strings) of records.

    Left out are strings that several subjects' records hold, which are nobody's in particular.
    """
    holders: dict[str, set[str]] = defaultdict(set)
    for subject, strings in records:
        for string in strings:
            holders[string].add(subject)
    return {string: min(who) for string, who in sorted(holders.items()) if len(who) == 1}


def exposed(
    found: Collection[str], labels: Mapping[str, str], whose: Mapping[str, str]
) -> ExposedPersons:
    """Return who is exposed by the strings that were found; `labels` are all looked for."""
    kinds: dict[str, set[str]] = defaultdict(set)
    for string in found:
        if string in whose and string in labels:
            kinds[whose[string]].add(labels[string])
    people = {whose[string] for string in labels if string in whose}
    return ExposedPersons({who: len(some) for who, some in sorted(kinds.items())}, len(people))


def expected_persons(chances: Mapping[str, float], whose: Mapping[str, str]) -> Estimate:
    """Return how many people are expected to be exposed, from the chance of each string.

    The value takes a person's strings as independent. The bounds hold however they hang together
    (Fréchet): somebody is exposed at least as often as by their likeliest string, and at most as
    often as all of theirs together.
    """
    of: dict[str, list[float]] = defaultdict(list)
    for string, chance in sorted(chances.items()):
        if string in whose:
            of[whose[string]].append(min(1.0, max(0.0, chance)))
    values = [1 - math.prod(1 - one for one in some) for some in of.values()]
    least = math.fsum(max(some) for some in of.values())
    most = math.fsum(min(1.0, math.fsum(some)) for some in of.values())
    value = math.fsum(values)
    return Estimate(min(max(value, least), most), least, most)
