"""The tables of two reports beside each other, and of an audit against its baseline."""

from fedaudit.api.kind import Table
from fedaudit.report.baseline import BaselineComparison, MetricChange
from fedaudit.report.comparison import LeakChange, ReportComparison, RowDifference
from fedaudit.report.number_format import format_difference, format_value, number
from fedaudit.report.query import Row
from fedaudit.report.redaction import make_visible
from fedaudit.report.tables.assessment import shown_name
from fedaudit.report.tables.table import NONE, shorten

MAX_ROWS = 40
LEAKS = ("appeared", "went", "stayed")
REST = "with --json FILE"
BOUND_SCOPE = frozenset({"client", "estimator", "position", "source"})
INDEPENDENT = (
    "Difference: second less first, with a 95 % interval that takes both numbers as independent."
    " Of the same targets it is too wide. Sure: the interval leaves out 0."
)


def change_sentence(first: Row, second: Row, comparison: ReportComparison) -> str:
    """Return in a sentence or two what changed: the verdict, the numbers, the leaks."""
    old, new = (str(report["verdict"]["status"]) for report in (first, second))
    verdict = f"Both verdicts are {old}" if old == new else f"The verdict went from {old} to {new}"
    sure = sum(change.sure for change in comparison.differences)
    numbers = f"{sure:,} of {len(comparison.differences):,} numbers changed surely"
    counts = [sum(getattr(leak, name) for leak in comparison.leaks) for name in LEAKS]
    texts = (f"{count:,} {name}" for count, name in zip(counts, LEAKS, strict=True))
    leaks = f" Of the leaks, {', '.join(texts)}." if any(counts) else ""
    return f"{verdict}; {numbers}.{leaks}"


def comparison_tables(comparison: ReportComparison) -> list[Table]:
    """Return both tables, sure and large differences first; numbers that are equal are counted."""
    changed = [change for change in comparison.differences if change.first != change.second]
    equal = len(comparison.differences) - len(changed)
    rows = sorted(changed, key=lambda d: (not d.sure, -abs(d.second - d.first)))
    numbers = Table(
        title="Numbers",
        columns=("what", "first", "second", "difference [95 %]", "sure"),
        rows=tuple(map(_line, rows)),
        numeric=frozenset({"first", "second", "difference [95 %]"}),
        notes=(INDEPENDENT, *([f"{equal:,} more are equal in both."] if equal else [])),
    )
    leaks = Table(
        title="Leaks",
        columns=("by", "kind", *LEAKS, "p"),
        rows=tuple((*_leak_cells(leak), number(leak.p)) for leak in comparison.leaks),
        numeric=frozenset({*LEAKS, "p"}),
        notes=(
            "p: two-sided, how often chance parts appeared and gone as unevenly. Neither it nor"
            " the intervals above are adjusted for how many there are.",
        ),
    )
    return [shorten(table, MAX_ROWS, REST) for table in (numbers, leaks) if table.rows]


def _leak_cells(leak: LeakChange) -> tuple[str, ...]:
    names = (make_visible(leak.measurement), make_visible(leak.label))
    return (*names, *(f"{getattr(leak, name):,}" for name in LEAKS))


def _line(change: RowDifference) -> tuple[str, ...]:
    name = shown_name(change.plugin, change.metric, _named_scope(change))
    numbers = (format_value(change.metric, value) for value in (change.first, change.second))
    estimate = change.difference
    interval = (None, None) if estimate is None else (estimate.low, estimate.high)
    text = format_difference(change.metric, change.second - change.first, *interval)
    sure = NONE if estimate is None else "yes" if change.sure else "no"
    return make_visible(name), *numbers, text, sure


def _named_scope(change: RowDifference) -> dict[str, object]:
    """Return what tells a row from others; of a bound on epsilon, not the whole rule."""
    if change.metric != "epsilon_low":
        return dict(change.scope)
    return {name: value for name, value in change.scope.items() if name in BOUND_SCOPE}


MOST_WORSE = 30
IN_BASELINE = "in baseline.json (of compare: with --json FILE)"
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
        rows=tuple(map(_leak_cells, sorted(comparison.leaks, key=lambda leak: -leak.appeared))),
        numeric=frozenset({"new", "gone", "stayed"}),
        notes=(VERIFIED,),
    )
    rows = sorted(comparison.numbers, key=lambda change: (not change.worse, change.p))
    numbers = Table(
        title="Judged numbers against the baseline",
        columns=("what", "before", "now", "difference [95 %]", "p", "seen from", "worse"),
        rows=tuple(map(_baseline_line, rows)),
        numeric=frozenset({"before", "now", "p", "seen from"}),
        notes=(NOTE, *comparison.notes),
    )
    return [shorten(table, MOST_WORSE, IN_BASELINE) for table in (leaks, numbers) if table.rows]


def _baseline_line(change: MetricChange) -> tuple[str, ...]:
    gap, metric = change.difference, change.metric
    return (
        make_visible(shown_name(change.plugin, metric, change.scope)),
        *(format_value(metric, value) for value in (change.before, change.now)),
        format_difference(metric, gap.value, gap.low, gap.high),
        number(change.adjusted),
        format_difference(metric, change.seen, None, None),
        "yes" if change.worse else "no",
    )
