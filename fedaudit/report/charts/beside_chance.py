"""The one chart of an audit: how much each attack got, beside base and chance, on one scale."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fedaudit.report import query
from fedaudit.report.charts.line_plot import shorten_name
from fedaudit.report.checklist.attackers import headline_totals, is_one_of
from fedaudit.report.checklist.brief import kind_name, measurements_judged
from fedaudit.report.number_format import format_rate, is_rate, percent
from fedaudit.report.query import SETS, SOURCES, Row
from fedaudit.report.redaction import make_visible
from fedaudit.report.tables import grouping
from fedaudit.report.tables.cross_client import charted_report, without_pairs
from fedaudit.report.tables.table import display_name

MOST_LETTERS = 48
"""The maximum length of a bar's name; the tables have the whole name."""
MOST_BARS = 40
"""The maximum number of bars of the chart; the tables have a line for each."""
SCALES = (0.1, 0.2, 0.25, 0.4, 0.5, 0.75, 1.0)
"""The shares at which the scale may end; the smallest that holds all intervals is taken."""
COUNTED = {
    "coverage": "strings",
    "extraction_recall": "strings said unasked",
    "inference_accuracy": "picked among candidates",
    "tpr": "members recognised",
    "extractable": "documents extractable",
}
"""What the share of a metric is of, in a bar's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: its name, how far its value and interval reach, and the marks to compare it with."""

    name: str
    caption: str
    value: float
    low: float | None = None
    high: float | None = None
    marks: tuple[tuple[str, float], ...] = ()
    fails: bool = False
    """Whether a judgement of this number fails."""
    heading: str = ""
    """What stands above this bar, where a group begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Bars of shares on one scale from 0 to `top`."""

    bars: tuple[Bar, ...]
    top: float
    note: str

    @property
    def ticks(self) -> tuple[str, ...]:
        """The numbers below the scale, from its beginning to its end."""
        return tuple(percent(self.top * part / 4) if part else "0" for part in range(5))

    def scaled(self, width: float) -> "Chart":
        """Return the chart with all lengths in units of which the scale has `width`."""

        def scale(share: float | None) -> float | None:
            return None if share is None else round(max(0.0, min(share / self.top, 1.0)) * width, 1)

        bars = (
            replace(
                bar,
                value=scale(bar.value) or 0.0,
                low=scale(bar.low),
                high=scale(bar.high),
                marks=tuple((name, scale(at) or 0.0) for name, at in bar.marks),
            )
            for bar in self.bars
        )
        return replace(self, bars=tuple(bars))


def beside_chance(report: Row) -> Chart:
    """Return the chart of a report: a bar for each attack, then for each kind of data.

    An attack on several variants or under several keys has a bar for each of them. A bar is what
    came out beyond the base where that was measured. Reports without shares have no bars.
    """
    failed = measurements_judged(report, "fail")
    bars = [*_attacks(report, failed), *_kinds(report, failed)]
    highest = max((max(bar.high or 0.0, bar.value) for bar in bars), default=1.0)
    top = next((scale for scale in SCALES if highest <= scale), 1.0)
    remaining = len(bars) - MOST_BARS
    more = f" {remaining:,} more are in the tables." if remaining > 0 else ""
    note = (
        "Thin line: 95 % interval. Blue mark: the base, on the same questions. Dashed mark: control"
        f" or guessing.{more}"
    )
    return Chart(bars=tuple(bars[:MOST_BARS]), top=top, note=note)


def _attacks(report: Row, failed: Sequence[Row]) -> Iterator[Bar]:
    charted = charted_report(report)
    groups = [
        *query.by_plugin(query.total_coverages(charted)).values(),
        *query.by_plugin(query.untargeted_rows(report, labelled=False)).values(),
        *query.by_plugin(query.inference_rows(report, labelled=False)).values(),
    ]
    bars = []
    viewed = [group for group in groups if grouping.has_many_lines(group) or _has_pairs(group)]
    for group in viewed:
        hidden = grouping.column_scopes(group)
        rows = [row for row in grouping.preferred_source_rows(group) if _is_share(row)]
        bars += [_bar(report, row, group, _view_name(row, hidden), failed) for row in rows]
    plugins = {row["plugin"] for group in viewed for row in group}
    for row in headline_totals(report):
        if _is_share(row) and row["plugin"] not in plugins:
            group = [one for one in report["measurements"] if one["metric"] == row["metric"]]
            bars.append(_bar(report, row, group, _attack_name(row), failed))
    yield from _headed("By attack", bars)


def _has_pairs(group: Sequence[Row]) -> bool:
    return any("attacker" in row["scope"] for row in group)


def _kinds(report: Row, failed: Sequence[Row]) -> Iterator[Bar]:
    """Yield a bar for each kind of PII, of every attack that asked for kinds."""
    groups = query.by_plugin(query.coverages(without_pairs(report), labelled=True))
    for plugin, group in groups.items():
        if any("key" in row["scope"] for row in group):
            continue
        rows = grouping.single_group(group) if grouping.has_many_lines(group) else group
        best = [row for row in query.largest_label_rows(rows) if _is_share(row)]
        labels = [str(row["scope"]["label"]) for row in best]
        names = [*map(kind_name, labels)]
        named = [
            (row, name if names.count(name) == 1 else f"{name} ({label})")
            for row, name, label in zip(best, names, labels, strict=True)
        ]
        bars = [_bar(report, row, rows, name, failed) for row, name in named]
        yield from _headed(f"By kind of data, {plugin}", bars)


def _headed(heading: str, bars: Sequence[Bar]) -> Iterator[Bar]:
    for index, bar in enumerate(bars):
        yield bar if index else replace(bar, heading=make_visible(heading))


def _is_share(row: Row) -> bool:
    return row["value"] is not None and is_rate(row["metric"]) and 0 <= row["value"] <= 1


def _bar(report: Row, row: Row, group: Sequence[Row], name: str, failed: Sequence[Row]) -> Bar:
    """Return the bar of a row, with marks of the base and of chance from its `group`."""
    base, control = (query.comparable_row(group, row, source) for source in ("base", "control"))
    guessing = query.guessing_accuracy(report, row) if row["metric"] in query.INFERENCE else None
    chance = control["value"] if control is not None else guessing
    marks = (("base", None if base is None else base["value"]), ("control", chance))
    return Bar(
        name=shorten_name(name, MOST_LETTERS),
        caption=format_rate(row),
        value=row["value"],
        low=row["low"] if row["high"] is not None else None,
        high=row["high"] if row["low"] is not None else None,
        marks=tuple((mark, at) for mark, at in marks if at is not None and at <= 1),
        fails=is_one_of(row, failed),
    )


def _attack_name(row: Row) -> str:
    scope = row["scope"]
    records = "passages" if row["metric"] == "coverage" and "set" not in scope else ""
    counted = records or COUNTED.get(row["metric"], str(row["metric"]).replace("_", " "))
    count = scope.get("candidates") if row["metric"] in query.INFERENCE else None
    fpr = scope.get("fpr")
    parts = (
        counted,
        "" if count is None else f"of {count}",
        f"at FPR {percent(fpr)}" if isinstance(fpr, float) else "",
    )
    return f"{row['plugin']}: {' '.join(filter(None, parts))}"


def _view_name(row: Row, hidden: set[str]) -> str:
    """Return a name of what tells the row from others of its attack: variant, key, what varies."""
    scope = row["scope"]
    count = scope.get("candidates") if row["metric"] in query.INFERENCE else None
    source = str(scope.get("source"))
    parts = (
        str(row["plugin"]),
        grouping.variant_of(row) if "variant" in hidden else "",
        f"key {grouping.key_text(row)}" if grouping.key_text(row) else "",
        "" if source == "tuned-not-base" else SOURCES.get(source, ""),
        "" if "set" not in scope else display_name(SETS, scope["set"]),
        "" if count is None else f"{count} candidates",
        query.scope_of(row, {*hidden - {"victim"}, "client"}),
    )
    return ", ".join(filter(None, parts))
