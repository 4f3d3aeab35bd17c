"""The tables of an audit against its baseline: leaks that are new, numbers that got worse."""

from fedaudit.api.kind import Table
from fedaudit.report.baseline import BaselineComparison, MetricChange
from fedaudit.report.number_format import format_difference, format_value, number
from fedaudit.report.redaction import make_visible
from fedaudit.report.tables.assessment import shown_name
from fedaudit.report.tables.table import shorten

MAX_ROWS = 30
REST = "in baseline.json (of compare: with --json FILE)"
NOTE = (
    "Difference: now less before, with its 95 % interval. Worse: the one-sided p, adjusted over all"
    " numbers (Holm), is at most the policy's level. Seen from: how much worse it had to be, alone."
)
VERIFIED = "Verified leaks that came out, by their masks; what was told apart is among the numbers."


def baseline_tables(comparison: BaselineComparison) -> list[Table]:
    """Return the tables of leaks by kind and of judged numbers, those that got worse first."""
    leaks = Table(
        title="Leaks against the baseline",
        columns=("by", "kind", "new", "gone", "stayed"),
        rows=tuple(
            (
                make_visible(leak.measurement),
                make_visible(leak.label),
                *(f"{count:,}" for count in (leak.appeared, leak.went, leak.stayed)),
            )
            for leak in sorted(comparison.leaks, key=lambda leak: -leak.appeared)
        ),
        numeric=frozenset({"new", "gone", "stayed"}),
        notes=(VERIFIED,),
    )
    rows = sorted(comparison.numbers, key=lambda change: (not change.worse, change.p))
    numbers = Table(
        title="Judged numbers against the baseline",
        columns=("what", "before", "now", "difference [95 %]", "p", "seen from", "worse"),
        rows=tuple(map(_line, rows)),
        numeric=frozenset({"before", "now", "p", "seen from"}),
        notes=(NOTE, *comparison.notes),
    )
    return [shorten(table, MAX_ROWS, REST) for table in (leaks, numbers) if table.rows]


def _line(change: MetricChange) -> tuple[str, ...]:
    gap, metric = change.difference, change.metric
    return (
        make_visible(shown_name(change.plugin, metric, change.scope)),
        *(format_value(metric, value) for value in (change.before, change.now)),
        format_difference(metric, gap.value, gap.low, gap.high),
        number(change.adjusted),
        format_difference(metric, change.seen, None, None),
        "yes" if change.worse else "no",
    )
