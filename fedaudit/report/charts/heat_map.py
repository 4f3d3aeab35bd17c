"""The map of memorization: prefixes against texts, the darker the more were drawn."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedaudit.report.number_format import percent
from fedaudit.report.query import Row
from fedaudit.report.redaction import make_visible
from fedaudit.report.tables import grouping
from fedaudit.report.tables.memorization import ALL, category, client_in_scope, rows, source_of
from fedaudit.report.tables.table import NONE

MOST_CLIENTS, MOST_MAPS = 12, 12
CELL, LEFT, TOP, LETTERS = 52, 90, 30, 10
"""The map's geometry: a field, the room for names, and how long they may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a map: how dark it is, and what it says."""

    x: int
    y: int
    shade: float
    caption: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """Prefixes against texts: the darker, the more prefixes drew something."""

    title: str
    note: str
    fields: tuple[Field, ...]
    columns: tuple[tuple[str, int], ...]
    rows: tuple[tuple[str, int], ...]
    width: int
    height: int
    cell: int = CELL
    left: int = LEFT
    top: int = TOP


def heat_maps(report: Row) -> list[Map]:
    """Return the map of the tuned model's pairs, one for each variant."""
    groups: dict[str, dict[tuple[str, str], Row]] = {}
    for row in rows(report, "mr_pair"):
        if category(row) == ALL and source_of(row) == "tuned":
            groups.setdefault(grouping.variant_of(row), {}).setdefault(_pair(row), row)
    return [_map(name, [*pairs.values()]) for name, pairs in groups.items()][:MOST_MAPS]


def _pair(row: Row) -> tuple[str, str]:
    return client_in_scope(row, "attacker"), client_in_scope(row, "victim")


def _map(variant: str, pairs: Sequence[Row]) -> Map:
    names = list(dict.fromkeys(name for i in (0, 1) for row in pairs for name in [_pair(row)[i]]))
    hidden_count = len(names) - MOST_CLIENTS
    places = {name: i for i, name in enumerate(names[:MOST_CLIENTS])}
    inside = [
        row
        for row in pairs
        if {client_in_scope(row, "attacker"), client_in_scope(row, "victim")} <= places.keys()
    ]
    top = max((row["value"] or 0 for row in inside), default=0)
    return Map(
        title=f"Who draws whose text{f', {make_visible(variant)}' if variant else ''}",
        note=f"{hidden_count:,} more clients in report.json." if hidden_count > 0 else "",
        fields=tuple(
            Field(
                x=LEFT + CELL * places[client_in_scope(row, "victim")],
                y=TOP + CELL * places[client_in_scope(row, "attacker")],
                shade=round(max(0.0, min(1.0, row["value"] / top)), 3) if row["value"] else 0.0,
                caption=NONE if row["value"] is None else percent(row["value"]),
            )
            for row in inside
        ),
        columns=tuple((_short(name), LEFT + CELL * i + CELL // 2) for name, i in places.items()),
        rows=tuple((_short(name), TOP + CELL * i + CELL // 2) for name, i in places.items()),
        width=LEFT + CELL * len(places) + 8,
        height=TOP + CELL * len(places) + 8,
    )


def _short(name: str) -> str:
    name = make_visible(name)
    return name if len(name) <= LETTERS else f"{name[: LETTERS - 1]}…"
