"""What variants of a study give away: round by round, and beside their utility (FewFedPIT, 4.3)."""

from collections.abc import Mapping, Sequence

from fedaudit.api.kind import Table
from fedaudit.report.charts import z_by_round
from fedaudit.report.charts.line_plot import Line, LinePlot, Point
from fedaudit.report.number_format import format_measurement
from fedaudit.report.query import Row
from fedaudit.report.tables import tradeoffs
from fedaudit.report.tables.grouping import EVERYBODY, client_of, variant_of
from fedaudit.report.tables.table import NONE, build_table

ROUNDS, UTILITY = "Leakage round by round", "Leakage and utility"
LEAKAGE_NOTE = "Leakage: Rouge-L of answers to training prompts beyond the base's; 0 is none."
JUDGED, LOSS = "judge_win_tie", "loss"
UTILITY_NOTES = {
    JUDGED: "Utility: the share of held-out answers that win or tie; higher is better.",
    LOSS: "Utility: held-out loss; lower is better.",
}
AXES = {JUDGED: "won or tied", LOSS: "held-out loss"}

Traces = Mapping[str, Mapping[int, Row]]
"""The mean difference in Rouge-L of each variant after each round that was attacked."""


def tuned_gains(report: Row) -> list[Row]:
    """Return the rows of how much better tuned models answer than their base, over all tasks."""
    return [
        row
        for row in report["measurements"]
        if (row["kind"], row["metric"]) == ("extraction", "rouge_l")
        and row["scope"].get("source") == "tuned-not-base"
        and "task" not in row["scope"]
        and row["value"] is not None
    ]


def round_traces(report: Row) -> Traces:
    """Return each variant's differences by round, if several rounds were attacked."""
    traces: dict[str, dict[int, Row]] = {}
    for row in tuned_gains(report):
        if "passed" in row["scope"] and client_of(row) in ("", EVERYBODY):
            traces.setdefault(variant_of(row), {})[row["scope"]["round"]] = row
    return traces


def utility_pairs(report: Row) -> tuple[str, dict[str, tuple[Row, Row]]]:
    """Return the metric of utility, and (utility, leakage) of each variant that has both.

    The metric is a judge's score if every such variant has one, else the held-out loss. If several
    rounds were attacked, the last one counts. If the clients' own models were attacked, the utility
    is that of those models.
    """
    leaks = {
        variant_of(row): row
        for row in tuned_gains(report)
        if variant_of(row)
        and row["scope"].get("passed", 1) == 1
        and client_of(row) in ("", EVERYBODY)
    }
    for metric in (JUDGED, LOSS):
        pairs = {
            name: (row, leaks[name])
            for name in leaks
            for row in report["measurements"]
            if row["kind"] == "utility" and row["metric"] == metric and variant_of(row) == name
            if "task" not in row["scope"]
            and row["scope"].get("source") == _utility_source(leaks[name])
            if row["value"] is not None
        }
        if len(pairs) == len(leaks):
            break
    return metric, pairs


def _utility_source(leak: Row) -> str:
    """Return the scope.source of the utility rows about the model that was attacked."""
    default = "local" if client_of(leak) == EVERYBODY else "tuned"
    return str(leak["scope"].get("model", default))


def tables(report: Row) -> list[Table]:
    """Return both tables, leaving out one that has nothing to compare."""
    return [*_by_round(round_traces(report)), *_tradeoff_table(*utility_pairs(report))]


def _by_round(traces: Traces) -> list[Table]:
    every = sorted({number for trace in traces.values() for number in trace})
    if len(every) < 2:
        return []
    columns = {number: f"round {number}" for number in z_by_round.shown_rounds(every)}
    cells = [
        {"variant": name}
        | {title: format_measurement(t[n]) if n in t else NONE for n, title in columns.items()}
        for name, t in traces.items()
    ]
    note = "For the other rounds see report.json." if len(columns) < len(every) else ""
    titles = tuple(columns.values())
    return [
        build_table(
            ROUNDS, cells, ("variant", *titles), numeric=titles, notes=(f"{LEAKAGE_NOTE} {note}",)
        )
    ]


def _tradeoff_table(metric: str, pairs: Mapping[str, tuple[Row, Row]]) -> list[Table]:
    if len(pairs) < 2:
        return []
    cells = [
        {"variant": name, metric: format_measurement(row), "leakage": format_measurement(leak)}
        for name, (row, leak) in pairs.items()
    ]
    columns = (metric, "leakage")
    notes = (f"{LEAKAGE_NOTE} {UTILITY_NOTES[metric]}",)
    return [build_table(UTILITY, cells, ("variant", *columns), numeric=columns, notes=notes)]


def figures(report: Row) -> list[LinePlot]:
    """Return the pictures, leaving out those that have nothing to compare."""
    traces = round_traces(report)
    metric, pairs = utility_pairs(report)
    plots = _front(report)
    if len({number for trace in traces.values() for number in trace}) > 1:
        plots.append(_rounds(traces))
    if len(pairs) > 1:
        plots.append(_pairs(metric, pairs))
    return plots


def _front(report: Row) -> list[LinePlot]:
    """Return the picture of all variants by both axes of the study's table, the front as a line."""
    places = {name: (v[1], v[0]) for name, v in tradeoffs.axis_values(report).items()}
    if len(places) < 2:
        return []
    up, across = (column for column in tradeoffs.tradeoff_columns(report) if column["axis"])
    flip = [-1 if column["better"] == "higher" else 1 for column in (across, up)]
    points = {name: [(x * flip[0], y * flip[1])] for name, (x, y) in places.items()}
    front = sorted(
        points[name][0] for name in tradeoffs.pareto_front(tradeoffs.axis_values(report))
    )
    note = f"Up: {up['title']}. The line joins the Pareto front."
    return [_plot(tradeoffs.TITLE, note, str(across["title"]), {"": front, **points})]


def _rounds(traces: Traces) -> LinePlot:
    lines = {
        name: [(n, trace[n]["value"]) for n in sorted(trace)] for name, trace in traces.items()
    }
    return _plot(ROUNDS, LEAKAGE_NOTE, "round", lines, by_round=True)


def _pairs(metric: str, pairs: Mapping[str, tuple[Row, Row]]) -> LinePlot:
    points = {name: [(row["value"], leak["value"])] for name, (row, leak) in pairs.items()}
    return _plot(UTILITY, f"{LEAKAGE_NOTE} {UTILITY_NOTES[metric]}", AXES[metric], points)


def _plot(
    title: str,
    note: str,
    across: str,
    lines: Mapping[str, Sequence[Point]],
    *,
    by_round: bool = False,
) -> LinePlot:
    """Return a plot of curves over rounds, or of points with their names beside them."""
    values = [value for points in lines.values() for _, value in points]
    return LinePlot(
        title=title,
        note=note,
        lines=tuple(Line(name=name, points=tuple(points)) for name, points in lines.items()),
        low=min(0.0, *values),
        high=max(0.1, *values),
        across=across,
        across_scale="whole" if by_round else "linear",
        names_at_points=not by_round,
    )
