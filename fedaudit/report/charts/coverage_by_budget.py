"""What smaller budgets would have found, as curves: coverage, and what each query finds."""

from collections.abc import Iterable, Sequence

from fedaudit.report.charts.line_plot import Line, LinePlot
from fedaudit.report.number_format import number, percent
from fedaudit.report.query import Row
from fedaudit.report.tables.sweeps import TITLES, sweeps

COLORS = ("bad", "blue", "good", "open", "violet", "gray")
"""One for each curve of a figure, in the order of the report."""

LEGEND = "Shaded: 95 % intervals."


def figures(report: Row) -> list[LinePlot]:
    """Return the curves of coverage and of efficiency, all attacks in one picture."""
    all_sweeps = sweeps(report)
    remaining = len(all_sweeps) - len(COLORS)
    note = f"{LEGEND} And {remaining:,} more in report.json." if remaining > 0 else LEGEND
    shown = all_sweeps[: len(COLORS)]
    return [
        _figure(title, [(sweep.name, getattr(sweep, metric)) for sweep in shown], note)
        for metric, title in TITLES.items()
        if any(len(getattr(sweep, metric)) > 1 for sweep in shown)
    ]


def interval_lines(series: Iterable[tuple[str, Sequence[tuple[int, Row]]]]) -> tuple[Line, ...]:
    """Return a line of its own color for each name, through measurements at places."""
    return tuple(
        Line(
            name=name,
            points=tuple((place, row["value"]) for place, row in points),
            intervals=tuple((row["low"], row["high"]) for _, row in points),
            color=color,
        )
        for (name, points), color in zip(series, COLORS, strict=False)
        if points
    )


def _figure(title: str, series: Sequence[tuple[str, Sequence[Row]]], note: str) -> LinePlot:
    every = [row for _, rows in series for row in rows]
    rate = every[0]["metric"] == "coverage"
    # The first few queries of an efficiency have such wide intervals that they dwarf the rest.
    highest = 0 if rate else 1.5 * max(row["value"] for row in every)
    return LinePlot(
        title=title,
        note=note,
        lines=interval_lines(
            (name, [(row["scope"]["budget"], row) for row in rows]) for name, rows in series
        ),
        low=0.0,
        high=highest or max(row["high"] for row in every) or 1.0,
        across="prefixes asked",
        across_scale="log",
        format_value=percent if rate else number,
    )
