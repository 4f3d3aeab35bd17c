"""How each client's Z stood after every round: as curves for a page, as a table for Markdown."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fedaudit.report import query as measurements
from fedaudit.report.number_format import number
from fedaudit.report.query import Row
from fedaudit.report.redaction import make_visible
from fedaudit.report.tables.attribution.clients import client_tests, format_z
from fedaudit.report.tables.grouping import client_of, variant_of
from fedaudit.report.tables.table import Table, laid_out
from fedaudit.report.verdict import attribution

MOST_CURVES = 20
"""Of a figure: flagged clients first, then the highest."""

MOST_FIGURES = 12
MOST_ROUNDS = 8
"""Named on a scale, or columns of a table: spread evenly, the first and the last among them."""

MOST_LETTERS = 32
WIDTH, HEIGHT, LEFT, EDGE, GAP = 420, 240, 48, 14, 15
"""The picture's geometry: the plot, the room for its scale, its rim, and between two names."""

FAR = 1e9
"""Further than this a statistic is not drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One client's Z after each of its rounds, under the mark that speaks most against it."""

    client: str
    mark: str
    flagged: bool
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ZCurve:
    """A series as it is drawn."""

    name: str
    flagged: bool
    path: str
    points: tuple[tuple[float, float], ...]
    label: float
    """How far down its name stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZFigure:
    """The running Z of the clients of one attribution."""

    title: str
    curves: tuple[ZCurve, ...]
    thresholds: tuple[tuple[str, float], ...]
    """What must be exceeded, and how far down that is."""
    rounds: tuple[tuple[str, float], ...]
    scale: tuple[tuple[str, float], ...]
    height: int
    note: str
    left: int = LEFT
    right: int = LEFT + WIDTH


def z_series(report: Row) -> dict[str, list[Series]]:
    """Return the series of every client by variant, flagged clients and the highest first."""
    some = measurements.attribution_rows(report, "round")
    found: dict[str, dict[tuple[str, str], dict[int, float]]] = {}
    for row in some:
        number = row["scope"]["round"]
        if row["metric"] == "stouffer_z" and row["value"] is not None and _counts(number):
            key = (client_of(row), str(row["scope"]["mark"]))
            found.setdefault(variant_of(row), {}).setdefault(key, {})[number] = row["value"]
    decided = client_tests(measurements.attribution_rows(report, "client"))
    return {
        name: _series(own, [one for one in decided if one.variant == name])
        for name, own in found.items()
    }


def figures(report: Row) -> list[ZFigure]:
    """Return a figure of the running Z, or one for each of the first variants of a study."""
    drawn = [(name, some) for name, some in z_series(report).items() if some]
    decided = client_tests(measurements.attribution_rows(report, "client"))
    more = len(drawn) - MOST_FIGURES
    left = f"{more:,} more variants are in report.json." if more > 0 else ""
    return [
        _figure(
            f"Z after each round{f', variant {name}' if name else ''}",
            some,
            _limits(one for one in decided if one.variant == name),
            left if index == MOST_FIGURES - 1 else "",
        )
        for index, (name, some) in enumerate(drawn[:MOST_FIGURES])
    ]


def _limits(decided: Iterable[attribution.TestedClient]) -> list[float]:
    """Return the least and the most that some client must exceed."""
    some = [one.threshold for one in decided if one.threshold is not None]
    return sorted({min(some), max(some)}) if some else []


def table(report: Row) -> list[Table]:
    """Return the running Z as tables, for what cannot show a figure."""
    drawn = [(name, some) for name, some in z_series(report).items() if some]
    return [_table(name, some) for name, some in drawn[:MOST_FIGURES]]


def _counts(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _series(
    found: Mapping[tuple[str, str], Mapping[int, float]],
    decided: Sequence[attribution.TestedClient],
) -> list[Series]:
    """Return one series a client: of the mark that was decided on, else of its highest Z."""
    told = {one.client: one for one in attribution.strongest_tests(decided)}
    groups: dict[str, list[Series]] = {}
    for (who, mark), values in found.items():
        on = who in told and told[who].mark == mark
        series = Series(
            client=who,
            mark=mark,
            flagged=on and told[who].flagged,
            points=tuple(sorted(values.items())),
        )
        groups.setdefault(who, []).append(series)

    def rank(one: Series) -> tuple[bool, float, str]:
        on = one.client in told and told[one.client].mark == one.mark
        return not on, -_last(one), one.mark

    best = [min(group, key=rank) for group in groups.values()]
    return sorted(best, key=lambda one: (not one.flagged, -_last(one), one.client))


def _last(series: Series) -> float:
    return series.points[-1][1]


def _figure(title: str, some: Sequence[Series], thresholds: Sequence[float], note: str) -> ZFigure:
    shown = some[:MOST_CURVES]
    rounds = sorted({at for one in shown for at, _ in one.points})
    values = [_near(value) for one in shown for _, value in one.points]
    limits = [_near(value) for value in thresholds]
    low, high = min(0.0, *values, *limits), max(1.0, *values, *limits)
    height = max(HEIGHT, GAP * len(shown)) + 2 * EDGE

    def across(at: int) -> float:
        share = (at - rounds[0]) / (rounds[-1] - rounds[0]) if len(rounds) > 1 else 0.5
        return round(LEFT + EDGE + share * (WIDTH - 2 * EDGE), 1)

    def down(value: float) -> float:
        share = (_near(value) - low) / (high - low)
        return round(height - EDGE - share * (height - 2 * EDGE), 1)

    points = [tuple((across(at), down(value)) for at, value in one.points) for one in shown]
    labels = spread_labels([own[-1][1] for own in points], EDGE, height - EDGE)
    hidden = len(some) - len(shown)
    return ZFigure(
        title=title,
        curves=tuple(
            ZCurve(
                name=shorten_name(f"{one.client} ({format_z(_last(one))})"),
                flagged=one.flagged,
                path=" ".join(f"{x:g},{y:g}" for x, y in own),
                points=own,
                label=label,
            )
            for one, own, label in zip(shown, points, labels, strict=True)
        ),
        thresholds=tuple((f"{value:.4g}", down(value)) for value in thresholds),
        rounds=tuple((str(at), across(at)) for at in shown_rounds(rounds)),
        scale=tuple(_readable([(number(value), down(value)) for value in (0.0, high, low)])),
        height=height,
        note=" ".join(filter(None, (f"and {hidden:,} more clients." if hidden else "", note))),
    )


def _readable(scale: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return the numbers of a scale, the first ones first, that do not cover each other."""
    kept: list[tuple[str, float]] = []
    for told, y in scale:
        if all(abs(y - other) >= GAP for _, other in kept):
            kept.append((told, y))
    return kept


def _near(value: float) -> float:
    return max(-FAR, min(FAR, value))


def shorten_name(name: str) -> str:
    """Return a name for a picture: visible characters only, and as many as there is room for."""
    shown = make_visible(name)
    return shown if len(shown) <= MOST_LETTERS else f"{shown[: MOST_LETTERS - 1]}…"


def shown_rounds(rounds: Sequence[int]) -> list[int]:
    """Return as many rounds as there is room for, spread evenly from the first to the last."""
    if len(rounds) <= MOST_ROUNDS:
        return list(rounds)
    step = (len(rounds) - 1) / (MOST_ROUNDS - 1)
    return [rounds[round(place * step)] for place in range(MOST_ROUNDS)]


def spread_labels(wished: Sequence[float], top: float, bottom: float) -> list[float]:
    """Return places near those wished for, at least a line apart and between `top` and `bottom`."""
    order = sorted(range(len(wished)), key=lambda index: wished[index])
    places = [0.0] * len(wished)
    above = top - GAP
    for index in order:
        above = places[index] = max(wished[index], above + GAP)
    below = bottom + GAP
    for index in reversed(order):
        below = places[index] = min(places[index], below - GAP)
    return [round(place, 1) for place in places]


def _table(name: str, some: Sequence[Series]) -> Table:
    every = sorted({at for one in some for at, _ in one.points})
    chosen = shown_rounds(every)
    cells = [
        {"client": one.client, "mark": one.mark}
        | {f"round {at}": format_z(value) for at, value in one.points}
        for one in some[:MOST_CURVES]
    ]
    columns = tuple(f"round {at}" for at in chosen)
    hidden = len(some) - len(cells)
    return laid_out(
        f"Z after each round{f', variant {name}' if name else ''}",
        cells,
        ("client", "mark", *columns),
        numeric=columns,
        notes=(
            f"and {hidden:,} more clients in report.json" if hidden else "",
            "For the other rounds see report.json." if len(chosen) < len(every) else "",
        ),
    )
