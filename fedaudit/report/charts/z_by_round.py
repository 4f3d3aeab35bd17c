"""How each client's Z stood after every round: as curves for a page, as a table for Markdown."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fedaudit.api.kind import Table
from fedaudit.report.attribution_parts import attribution_rows
from fedaudit.report.charts.line_plot import Line, LinePlot
from fedaudit.report.query import Row
from fedaudit.report.tables.attribution import client_tests, format_z
from fedaudit.report.tables.grouping import client_of, variant_of
from fedaudit.report.tables.table import build_table
from fedaudit.report.verdict import attribution

MOST_CURVES = 20
"""The maximum number of curves in a figure: flagged clients first, then the highest Z."""

MOST_FIGURES = 12
MOST_ROUNDS = 8
"""The maximum number of columns of a table: evenly spaced rounds, first and last included."""

LEGEND = "Dashed: what must be exceeded, the least and the most where clients differ. Red: flagged."


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One client's Z after each of its rounds, for the mark with the strongest evidence."""

    client: str
    mark: str
    flagged: bool
    points: tuple[tuple[int, float], ...]


def z_series(report: Row) -> dict[str, list[Series]]:
    """Return every client's series by variant: flagged clients first, then by falling Z."""
    rows = attribution_rows(report, "round")
    z_values: dict[str, dict[tuple[str, str], dict[int, float]]] = {}
    for row in rows:
        number = row["scope"]["round"]
        if row["metric"] == "stouffer_z" and row["value"] is not None and _counts(number):
            key = (client_of(row), str(row["scope"]["mark"]))
            z_values.setdefault(variant_of(row), {}).setdefault(key, {})[number] = row["value"]
    decided = client_tests(attribution_rows(report, "client"))
    return {
        name: _series(values, [test for test in decided if test.variant == name])
        for name, values in z_values.items()
    }


def figures(report: Row) -> list[LinePlot]:
    """Return one figure of the running Z, or for a study one for each of its first variants."""
    variants = [(name, series) for name, series in z_series(report).items() if series]
    decided = client_tests(attribution_rows(report, "client"))
    remaining = len(variants) - MOST_FIGURES
    note = f"{remaining:,} more variants are in report.json." if remaining > 0 else ""
    return [
        _figure(
            f"Z after each round{f', variant {name}' if name else ''}",
            series,
            _limits(test for test in decided if test.variant == name),
            note if index == MOST_FIGURES - 1 else "",
        )
        for index, (name, series) in enumerate(variants[:MOST_FIGURES])
    ]


def _limits(decided: Iterable[attribution.TestedClient]) -> list[float]:
    thresholds = [test.threshold for test in decided if test.threshold is not None]
    return sorted({min(thresholds), max(thresholds)}) if thresholds else []


def table(report: Row) -> list[Table]:
    """Return the running Z as tables, for formats that cannot show a figure."""
    variants = [(name, series) for name, series in z_series(report).items() if series]
    return [_table(name, series) for name, series in variants[:MOST_FIGURES]]


def _counts(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _series(
    z_values: Mapping[tuple[str, str], Mapping[int, float]],
    decided: Sequence[attribution.TestedClient],
) -> list[Series]:
    """Return one series per client: that of its strongest test's mark, else of its highest Z."""
    tests = {test.client: test for test in attribution.strongest_tests(decided)}
    groups: dict[str, list[Series]] = {}
    for (client, mark), values in z_values.items():
        on = client in tests and tests[client].mark == mark
        series = Series(
            client=client,
            mark=mark,
            flagged=on and tests[client].flagged,
            points=tuple(sorted(values.items())),
        )
        groups.setdefault(client, []).append(series)

    def rank(candidate: Series) -> tuple[bool, float, str]:
        on = candidate.client in tests and tests[candidate.client].mark == candidate.mark
        return not on, -_last(candidate), candidate.mark

    best = [min(group, key=rank) for group in groups.values()]
    return sorted(best, key=lambda s: (not s.flagged, -_last(s), s.client))


def _last(series: Series) -> float:
    return series.points[-1][1]


def _figure(
    title: str, client_series: Sequence[Series], thresholds: Sequence[float], note: str
) -> LinePlot:
    selected = client_series[:MOST_CURVES]
    values = [value for series in selected for _, value in series.points]
    hidden = len(client_series) - len(selected)
    more = f"and {hidden:,} more clients." if hidden else ""
    return LinePlot(
        title=title,
        note=" ".join(filter(None, (LEGEND, more, note))),
        lines=tuple(
            Line(
                name=f"{series.client} ({format_z(_last(series))})",
                points=series.points,
                color="bad" if series.flagged else "bar",
                bold=series.flagged,
            )
            for series in selected
        ),
        low=min(0.0, *values, *thresholds),
        high=max(1.0, *values, *thresholds),
        across="round",
        across_scale="whole",
        thresholds=tuple(thresholds),
    )


def shown_rounds(rounds: Sequence[int], most: int = MOST_ROUNDS) -> list[int]:
    """Return at most `most` rounds (two at least), spread evenly from the first to the last."""
    if len(rounds) <= most:
        return list(rounds)
    steps = (round(index * (len(rounds) - 1) / (most - 1)) for index in range(most))
    return [rounds[step] for step in steps]


def _table(name: str, client_series: Sequence[Series]) -> Table:
    every = sorted({r for series in client_series for r, _ in series.points})
    chosen = shown_rounds(every)
    cells = [
        {"client": series.client, "mark": series.mark}
        | {f"round {r}": format_z(value) for r, value in series.points}
        for series in client_series[:MOST_CURVES]
    ]
    columns = tuple(f"round {r}" for r in chosen)
    hidden = len(client_series) - len(cells)
    return build_table(
        f"Z after each round{f', variant {name}' if name else ''}",
        cells,
        ("client", "mark", *columns),
        numeric=columns,
        notes=(
            f"and {hidden:,} more clients in report.json" if hidden else "",
            "For the other rounds see report.json." if len(chosen) < len(every) else "",
        ),
    )
