"""What a table of a report is: plain text cells that any renderer can lay out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedaudit.api.kind import Table
from fedaudit.report.number_format import number
from fedaudit.report.redaction import is_mask, readable_mask

NONE = "-"
"""A cell of something that the row does not have."""


def build_table(
    title: str,
    lines: Sequence[Mapping[str, str]],
    columns: Sequence[str] = (),
    *,
    numeric: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Table:
    """Return the table of `lines`, with those of `columns` in which any line has something.

    Without `columns` they are those of the first line.
    """
    named = columns or tuple(lines[0] if lines else ())
    used = tuple(column for column in named if any(line.get(column) for line in lines))
    return Table(
        title=title,
        columns=used,
        rows=tuple(tuple(line.get(column) or NONE for column in used) for line in lines),
        numeric=frozenset(numeric) & set(used),
        notes=tuple(filter(None, notes)),
    )


def shorten(table: Table, most: int, rest: str = "in report.json") -> Table:
    """Return the first `most` lines of a table, and how many more there are, and where (`rest`)."""
    remaining = len(table.rows) - most
    if remaining <= 0:
        return table
    note = f"and {remaining:,} more {rest}"
    return replace(table, rows=table.rows[:most], notes=(*table.notes, note))


def common_note(shared: str) -> tuple[str, ...]:
    """Return a note of what holds for all lines, if anything does."""
    return (f"Throughout: {shared}.",) if shared else ()


def display_name(names: Mapping[str, str], value: Any) -> str:
    """Return what people call `value`: its name, or the value as it is."""
    return NONE if value is None else names.get(str(value), str(value))


def format_cell(value: Any) -> str:
    """Return any value of a report as a cell: numbers spelt, masks too, nothing as a dash."""
    if is_mask(value):
        return readable_mask(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number(value)
    return NONE if value is None else str(value)
