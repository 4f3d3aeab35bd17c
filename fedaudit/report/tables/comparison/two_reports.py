"""The tables of two reports beside each other: numbers that differ, leaks that appeared or went."""

from fedaudit.report.comparison import ReportComparison, RowDifference
from fedaudit.report.number_format import number
from fedaudit.report.redaction import make_visible
from fedaudit.report.tables.table import NONE, Table, shorten

MOST = 40
INDEPENDENT = (
    "Difference: second less first, with a 95 % interval that takes both numbers as independent."
    " Of the same targets it is too wide. Sure: the interval leaves out 0."
)


def comparison_tables(found: ReportComparison) -> list[Table]:
    """Return both tables, what differs surely and most first; notes stand below the first."""
    rows = sorted(found.differences, key=lambda one: (not one.sure, -abs(one.second - one.first)))
    numbers = Table(
        title="Numbers",
        columns=("what", "first", "second", "difference [95 %]", "sure"),
        rows=tuple(map(_line, rows)),
        numeric=frozenset({"first", "second", "difference [95 %]"}),
        notes=(INDEPENDENT, *found.notes),
    )
    leaks = Table(
        title="Leaks",
        columns=("by", "kind", "appeared", "went", "stayed", "p"),
        rows=tuple(
            (
                make_visible(one.measurement),
                make_visible(one.label),
                *(f"{count:,}" for count in (one.appeared, one.went, one.stayed)),
                number(one.p),
            )
            for one in found.leaks
        ),
        numeric=frozenset({"appeared", "went", "stayed", "p"}),
        notes=(
            "p: two-sided, how often chance parts appeared and gone as unevenly. Neither it nor"
            " the intervals above are adjusted for how many there are.",
        ),
    )
    return [shorten(table, MOST) for table in (numbers, leaks) if table.rows]


def _line(one: RowDifference) -> tuple[str, ...]:
    scope = ", ".join(f"{key} {value}" for key, value in one.scope.items())
    name = f"{one.plugin} {one.metric}" + (f" ({scope})" if scope else "")
    gap = one.second - one.first
    told = f"{gap:+.3g}"
    if one.difference is not None:
        told += f" [{one.difference.low:+.3g}, {one.difference.high:+.3g}]"
    sure = NONE if one.difference is None else "yes" if one.sure else "no"
    return make_visible(name), number(one.first), number(one.second), told, sure
