"""The variants of a study beside each other: what each gives away, is worth and costs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fedaudit.report.number_format import format_measurement
from fedaudit.report.query import Row
from fedaudit.report.tables.grouping import variant_of
from fedaudit.report.tables.table import NONE, Table, laid_out

TITLE = "Leakage, utility and cost"
FRONT = "front"
FITTING = 3
"""Columns, beside the variant and the front, that 80 characters have room for."""
LARGE = 1e6
"""From here on a number is written short, without its interval."""
Points = Mapping[str, tuple[float, ...]]
"""What each variant has by each axis, of which less is better."""


def tradeoff_columns(report: Row) -> list[Row]:
    """Return the columns that the study's profile names; none where it names none that can be."""
    found = report["run"]["config"].get("tradeoffs", ())
    if not isinstance(found, list) or not all(map(_is_column, found)):
        return []
    return found if sum(one["axis"] for one in found) == 2 else []


def _is_column(one: object) -> bool:
    """Tell whether a report's table is a column; reports are strangers' files."""
    return (
        isinstance(one, Mapping)
        and all(isinstance(one.get(name), str) for name in ("title", "metric", "plugin"))
        and isinstance(one.get("scope"), Mapping)
        and one.get("better") in ("lower", "higher")
        and isinstance(one.get("axis"), bool)
    )


def rows_by_variant(report: Row) -> dict[str, list[Row]]:
    """Return the measurements of each variant, in the study's order."""
    found: dict[str, list[Row]] = {}
    for row in report["measurements"]:
        if name := variant_of(row):
            found.setdefault(name, []).append(row)
    return found


def find_measurement(rows: Sequence[Row], column: Row) -> Row | None:
    """Return the measurement that a column means: of those that fit the least specific one."""
    fitting = [
        row
        for row in rows
        if row["metric"] == column["metric"]
        and column["plugin"] in ("", row["plugin"])
        and all(row["scope"].get(key) == value for key, value in column["scope"].items())
    ]
    return min(fitting, key=lambda row: len(row["scope"]), default=None)


def axis_values(report: Row) -> dict[str, tuple[float, ...]]:
    """Return each variant that has a value on every axis, with these; less is always better."""
    axes = [column for column in tradeoff_columns(report) if column["axis"]]
    found = {}
    for name, rows in rows_by_variant(report).items():
        cells = [find_measurement(rows, axis) for axis in axes]
        values = [
            cell["value"] * (1 if axis["better"] == "lower" else -1)
            for cell, axis in zip(cells, axes, strict=True)
            if cell is not None and cell["value"] is not None
        ]
        if axes and len(values) == len(axes):
            found[name] = tuple(values)
    return found


def pareto_front(every: Points) -> list[str]:
    """Return the variants that no other one beats: at least as good by all axes, better by one."""
    return [
        name
        for name, own in every.items()
        if not any(
            other != own and all(b <= a for a, b in zip(own, other, strict=True))
            for other in every.values()
        )
    ]


def tables(report: Row) -> list[Table]:
    """Return the table in parts that fit a terminal; none where nothing is to be compared."""
    columns = tradeoff_columns(report)
    if not columns or len(rows_by_variant(report)) < 2:
        return []
    # What the front is about goes first.
    ordered = sorted(columns, key=lambda one: not one["axis"])
    parts = [ordered[at : at + FITTING] for at in range(0, len(ordered), FITTING)]
    made = [tradeoff_table(report, part) for part in parts]
    titles = [TITLE, *(f"{TITLE}, part {at}" for at in range(2, len(parts) + 1))]
    return [
        replace(one, title=title, notes=one.notes if title == TITLE else ())
        for one, title in zip(made, titles, strict=True)
    ]


def tradeoff_table(report: Row, columns: Sequence[Row]) -> Table:
    """Return a line for each variant with these columns, and whether it is on the front."""
    every = rows_by_variant(report)
    front = pareto_front(axis_values(report))
    lines = []
    for name, rows in every.items():
        cells = {str(column["title"]): find_measurement(rows, column) for column in columns}
        written = {title: NONE if cell is None else _written(cell) for title, cell in cells.items()}
        lines.append({"variant": name, **written, FRONT: "yes" if name in front else ""})
    titles = tuple(str(column["title"]) for column in columns)
    return laid_out(
        TITLE,
        lines,
        ("variant", *titles, FRONT),
        numeric=titles,
        notes=(_directions(tradeoff_columns(report)), _front(tradeoff_columns(report))),
    )


def _written(cell: Row) -> str:
    value = cell["value"]
    return f"{value:.3g}" if value is not None and abs(value) >= LARGE else format_measurement(cell)


def _directions(columns: Sequence[Row]) -> str:
    more = [str(column["title"]) for column in columns if column["better"] == "higher"]
    return f"Less is better, but for {', '.join(more)}." if more else "Less is better everywhere."


def _front(columns: Sequence[Row]) -> str:
    axes = " and ".join(str(column["title"]) for column in columns if column["axis"])
    return (
        f"Front: by {axes}, no other variant is as good in both and better in one. It goes by the "
        "values; where intervals overlap, another run may have another front."
    )
