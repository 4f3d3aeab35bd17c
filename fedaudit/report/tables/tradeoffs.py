"""The variants of a study beside each other: what each gives away, is worth and costs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fedaudit.api.kind import Table
from fedaudit.report.number_format import format_measurement
from fedaudit.report.query import Row, group_by
from fedaudit.report.tables.grouping import variant_of
from fedaudit.report.tables.table import build_table, cell_of

TITLE = "Leakage, utility and cost"
FRONT = "front"
MAX_COLUMNS = 3
"""The number of columns that fit into 80 characters besides the variant and the front."""
LARGE = 1e6
"""Numbers from this value on are abbreviated and shown without their interval."""
Points = Mapping[str, tuple[float, ...]]
"""The value of each variant on each axis; lower is better."""


def tradeoff_columns(report: Row) -> list[Row]:
    """Return the columns that the study's profile names, if all are valid and two are axes."""
    columns = report["run"]["config"].get("tradeoffs", ())
    if not isinstance(columns, list) or not all(map(_is_column, columns)):
        return []
    return columns if sum(column["axis"] for column in columns) == 2 else []


def _is_column(value: object) -> bool:
    """Tell whether a value in a report is a column; reports are untrusted files."""
    return (
        isinstance(value, Mapping)
        and all(isinstance(value.get(name), str) for name in ("title", "metric", "plugin"))
        and isinstance(value.get("scope"), Mapping)
        and value.get("better") in ("lower", "higher")
        and isinstance(value.get("axis"), bool)
    )


def rows_by_variant(report: Row) -> dict[str, list[Row]]:
    """Return the measurements of each variant, in the study's order."""
    return group_by(filter(variant_of, report["measurements"]), variant_of)


def find_measurement(rows: Sequence[Row], column: Row) -> Row | None:
    """Return the measurement of a column: the matching row with the least specific scope."""
    fitting = [
        row
        for row in rows
        if row["metric"] == column["metric"]
        and column["plugin"] in ("", row["plugin"])
        and all(row["scope"].get(key) == value for key, value in column["scope"].items())
    ]
    return min(fitting, key=lambda row: len(row["scope"]), default=None)


def axis_values(report: Row) -> dict[str, tuple[float, ...]]:
    """Return the values of each variant that has one on every axis; lower is always better."""
    axes = [column for column in tradeoff_columns(report) if column["axis"]]
    points = {}
    for name, rows in rows_by_variant(report).items():
        cells = [find_measurement(rows, axis) for axis in axes]
        values = [
            cell["value"] * (1 if axis["better"] == "lower" else -1)
            for cell, axis in zip(cells, axes, strict=True)
            if cell is not None and cell["value"] is not None
        ]
        if axes and len(values) == len(axes):
            points[name] = tuple(values)
    return points


def pareto_front(every: Points) -> list[str]:
    """Return the variants that no other dominates (as good on all axes and better on one)."""
    return [
        name
        for name, point in every.items()
        if not any(
            rival != point and all(b <= a for a, b in zip(point, rival, strict=True))
            for rival in every.values()
        )
    ]


def tables(report: Row) -> list[Table]:
    """Return the table in parts that fit a terminal; none if there is nothing to compare."""
    columns = tradeoff_columns(report)
    if not columns or len(rows_by_variant(report)) < 2:
        return []
    # The axes of the front go first.
    ordered = sorted(columns, key=lambda column: not column["axis"])
    chunks = [
        ordered[offset : offset + MAX_COLUMNS] for offset in range(0, len(ordered), MAX_COLUMNS)
    ]
    part_tables = [tradeoff_table(report, chunk) for chunk in chunks]
    titles = [TITLE, *(f"{TITLE}, part {index}" for index in range(2, len(chunks) + 1))]
    return [
        replace(table, title=title, notes=table.notes if title == TITLE else ())
        for table, title in zip(part_tables, titles, strict=True)
    ]


def tradeoff_table(report: Row, columns: Sequence[Row]) -> Table:
    """Return a line for each variant with these columns, and whether it is on the front."""
    front = pareto_front(axis_values(report))
    titles = tuple(str(column["title"]) for column in columns)
    lines = [
        {
            "variant": name,
            **{
                str(column["title"]): cell_of(find_measurement(rows, column), _format_cell)
                for column in columns
            },
            FRONT: "yes" if name in front else "",
        }
        for name, rows in rows_by_variant(report).items()
    ]
    return build_table(
        TITLE,
        lines,
        ("variant", *titles, FRONT),
        numeric=titles,
        notes=(_directions(tradeoff_columns(report)), _front(tradeoff_columns(report))),
    )


def _format_cell(cell: Row) -> str:
    value = cell["value"]
    return f"{value:.3g}" if value is not None and abs(value) >= LARGE else format_measurement(cell)


def _directions(columns: Sequence[Row]) -> str:
    titles = [str(column["title"]) for column in columns if column["better"] == "higher"]
    return (
        f"Less is better, but for {', '.join(titles)}." if titles else "Less is better everywhere."
    )


def _front(columns: Sequence[Row]) -> str:
    axes = " and ".join(str(column["title"]) for column in columns if column["axis"])
    return (
        f"Front: by {axes}, no other variant is as good in both and better in one. It goes by the "
        "values; where intervals overlap, another run may have another front."
    )
