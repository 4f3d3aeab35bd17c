"""The tables of an audit against its baseline: leaks that are new, numbers that got worse."""

from fedaudit.report.baseline import BaselineComparison, MetricChange
from fedaudit.report.number_format import number
from fedaudit.report.redaction import make_visible
from fedaudit.report.tables.table import Table, shorten

MOST = 30
WORSE = (
    "Difference: now less before, with its 95 % interval. Worse: the one-sided p, adjusted over all"
    " numbers (Holm), is at most the policy's level. Seen from: how much worse it had to be, alone."
)
PROVEN = "Proven leaks that came out, by their masks; what was told apart is among the numbers."


def baseline_tables(found: BaselineComparison) -> list[Table]:
    """Return the leaks of each kind and the judged numbers, what got worse first."""
    leaks = Table(
        title="Leaks against the baseline",
        columns=("by", "kind", "new", "gone", "stayed"),
        rows=tuple(
            (
                make_visible(one.measurement),
                make_visible(one.label),
                *(f"{count:,}" for count in (one.appeared, one.went, one.stayed)),
            )
            for one in sorted(found.leaks, key=lambda one: -one.appeared)
        ),
        numeric=frozenset({"new", "gone", "stayed"}),
        notes=(PROVEN,),
    )
    rows = sorted(found.numbers, key=lambda one: (not one.worse, one.p))
    numbers = Table(
        title="Judged numbers against the baseline",
        columns=("what", "before", "now", "difference [95 %]", "p", "seen from", "worse"),
        rows=tuple(map(_line, rows)),
        numeric=frozenset({"before", "now", "p", "seen from"}),
        notes=(WORSE, *found.notes),
    )
    return [shorten(table, MOST) for table in (leaks, numbers) if table.rows]


def _line(one: MetricChange) -> tuple[str, ...]:
    gap = one.difference
    told = f"{gap.value:+.3g} [{gap.low:+.3g}, {gap.high:+.3g}]"
    numbers = (number(one.adjusted), number(one.seen), "yes" if one.worse else "no")
    return make_visible(one.name), number(one.before), number(one.now), told, *numbers
