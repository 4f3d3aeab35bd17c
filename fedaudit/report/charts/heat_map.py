"""The map of memorization: prefixes against texts, the darker the more were drawn."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedaudit.report.charts.line_plot import shorten_name
from fedaudit.report.charts.svg import THEME, inline_svg, new_axes
from fedaudit.report.kinds.memorization import ALL, category, client_in_scope, rows, source_of
from fedaudit.report.number_format import percent
from fedaudit.report.query import Row, group_by
from fedaudit.report.redaction import make_visible
from fedaudit.report.tables import grouping
from fedaudit.report.tables.table import NONE

MOST_CLIENTS, MOST_MAPS = 12, 12
CELL, LETTERS = 56, 10
"""The side of a field in pixels, and the maximum length of a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapField:
    """One field of a map: whose prefixes and whose texts, how dark it is, and what it says."""

    row: int
    column: int
    shade: float
    caption: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """Prefixes against texts: the darker, the more prefixes drew something."""

    title: str
    note: str
    fields: tuple[MapField, ...]
    names: tuple[str, ...]
    """Clients, in the order of rows and of columns."""

    def svg(self) -> str:
        """Return the picture, for a page."""
        from matplotlib.patches import Rectangle

        size, positions = len(self.names), [i + 0.5 for i in range(len(self.names))]
        with new_axes(CELL * size, CELL * size) as (figure, axes):
            axes.set(xlim=(0, size), ylim=(size, 0))
            axes.set_xticks(positions, self.names)
            axes.set_yticks(positions, self.names)
            axes.tick_params(length=0, labeltop=True, labelbottom=False)
            axes.spines[:].set_visible(False)
            for field in self.fields:
                color = (THEME["heat"], field.shade)
                place = (field.column, field.row)
                axes.add_patch(Rectangle(place, 1, 1, facecolor=color, edgecolor=THEME["line"]))
                axes.text(
                    field.column + 0.5, field.row + 0.5, field.caption, ha="center", va="center"
                )
            return inline_svg(figure, self.title)


def heat_maps(report: Row) -> list[HeatMap]:
    """Return the map of the tuned model's pairs, one for each variant."""
    tuned = [r for r in rows(report, "mr_pair") if category(r) == ALL and source_of(r) == "tuned"]
    groups = group_by(tuned, grouping.variant_of)
    return [_map(name, pairs) for name, pairs in groups.items()][:MOST_MAPS]


def _pair(row: Row) -> tuple[str, str]:
    return client_in_scope(row, "attacker"), client_in_scope(row, "victim")


def _map(variant: str, every: Sequence[Row]) -> HeatMap:
    pairs = [*{_pair(row): row for row in reversed(every)}.values()][::-1]
    names = list(dict.fromkeys(name for i in (0, 1) for row in pairs for name in [_pair(row)[i]]))
    hidden_count = len(names) - MOST_CLIENTS
    places = {name: i for i, name in enumerate(names[:MOST_CLIENTS])}
    inside = [row for row in pairs if set(_pair(row)) <= places.keys()]
    top = max((row["value"] or 0 for row in inside), default=0)
    title = f"Who draws whose text{f', {make_visible(variant)}' if variant else ''}"
    note = "A line is whose prefixes, a column whose texts."
    return HeatMap(
        title=title,
        note=f"{note} {hidden_count:,} more clients in report.json." if hidden_count > 0 else note,
        fields=tuple(
            MapField(
                row=places[attacker],
                column=places[victim],
                shade=round(max(0.0, min(1.0, row["value"] / top)), 3) if row["value"] else 0.0,
                caption=NONE if row["value"] is None else percent(row["value"]),
            )
            for row in inside
            for attacker, victim in [_pair(row)]
        ),
        names=tuple(shorten_name(name, LETTERS) for name in places),
    )
