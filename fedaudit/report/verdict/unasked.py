"""Targets that an attack's options leave out: not looked for, they could not be seen either."""

from collections import Counter
from collections.abc import Iterable, Mapping

from fedaudit.api.records import Measurement
from fedaudit.api.target_sets import UNASKED

SKIPPED = "targets"
"""The metric of rows that count targets that were not looked for."""

Scope = frozenset[tuple[str, str]]
Unasked = Mapping[str, Mapping[Scope, int]]
"""How many targets of all labels were left out, by attack and by whose they are."""


def is_unasked(row: Measurement) -> bool:
    """Tell whether a row counts targets of one label that an attack's options leave out."""
    return row.metric == SKIPPED and row.scope.get("set") == UNASKED


def count_unasked(rows: Iterable[Measurement]) -> Unasked:
    """Return how many targets were left out, over all labels."""
    counts: dict[str, Counter[Scope]] = {}
    for row in filter(is_unasked, rows):
        of_attack = counts.setdefault(row.plugin, Counter())
        of_attack[_scope(row) - {("set", UNASKED), ("label", str(row.scope.get("label")))}] += int(
            row.value or 0
        )
    return counts


def unasked_beside(row: Measurement, unasked: Unasked) -> int:
    """Return how many targets were left out where `row` was measured.

    A count applies to every row whose scope has all of its own: a count for a victim to the rows
    of each attacker, say.
    """
    counts = unasked.get(row.plugin, {})
    scope = _scope(row) if counts else frozenset()
    return sum(count for where, count in counts.items() if where <= scope)


def _scope(row: Measurement) -> Scope:
    return frozenset((key, str(value)) for key, value in row.scope.items())
