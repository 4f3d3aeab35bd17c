"""What a table of a report is: plain text cells that any renderer can lay out."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedaudit.api.kind import Table
from fedaudit.report.number_format import number, percent
from fedaudit.report.query import SOURCES, Row, common_scope, comparable_row, missing_reasons
from fedaudit.report.redaction import is_mask, readable_mask

NONE = "-"
"""A cell of something that the row does not have."""

Columns = Mapping[str, Callable[[Row], str]]
"""The columns of a table of measurements: what each shows of a row."""


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


def row_table(
    title: str,
    rows: Sequence[Row],
    columns: Columns,
    *,
    numeric: Sequence[str] = (),
    notes: Sequence[str] = (),
    hidden: Collection[str] | None = None,
    unmeasured: Iterable[Row] | None = None,
) -> Table:
    """Return the table of measurements, with a line for each and a note why values are missing.

    With `hidden`, names of keys that the columns show, a last column has the rest of each row's
    scope, and a note what all rows share. `unmeasured` are other rows whose reasons are noted.
    """
    lines = [{name: cell(row) for name, cell in columns.items()} for row in rows]
    names, shared = tuple(columns), ""
    if hidden is not None:
        names, (shared, scopes) = (*names, "where"), common_scope(rows, hidden)
        lines = [{**line, "where": scope} for line, scope in zip(lines, scopes, strict=True)]
    reasons = missing_reasons(rows if unmeasured is None else unmeasured)
    notes = (*notes, *common_note(shared), *reasons)
    return build_table(title, lines, names, numeric=numeric, notes=notes)


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


def model_name(row: Row, names: Mapping[str, str] = SOURCES) -> str:
    """Return the model that a measurement is of, as people call it."""
    return display_name(names, row["scope"].get("source"))


def cell_of(row: Row | None, spelt: Callable[[Row], str], missing: str = NONE) -> str:
    """Return the cell of a row that may not be there."""
    return missing if row is None else spelt(row)


def share_text(row: Row) -> str:
    """Return the value of a measurement in per cent, without its interval."""
    return percent(row["value"])


def beside(
    rows: Sequence[Row], source: str, spelt: Callable[[Row], str] = share_text
) -> Callable[[Row], str]:
    """Return what spells the row of `source` that a row is compared with."""
    return lambda row: cell_of(comparable_row(rows, row, source), spelt)


def value_text(row: Row) -> str:
    """Return the value of a measurement without its interval."""
    return number(row["value"])


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
