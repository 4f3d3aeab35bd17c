"""The short forms of a profile: variants that are products, and the tables of a paper.

Both are written out here into the long form, one table for each variant or figure, before a profile
is built: docs/profiles.md shows them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from fedaudit.api.errors import UsageError, unknown_name_error
from fedaudit.config.options import build, merge_tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Variants that are products: each change on each base."""

    base: Mapping[str, Mapping[str, Any]] | tuple[str, ...] = ()
    """Settings by name; or the names of variants further up, for the settings of these."""
    change: Mapping[str, Mapping[str, Any]]
    """Settings over those of a base, by name; the empty name is the base itself. A list `base`
    among them names the only bases that are changed so."""
    exceptions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings over all others, by the name of the one variant that has them."""
    join: str = ", "
    """What stands between base and change in a variant's name."""
    order: Literal["base", "change"] = "change"
    """What the variants are listed by: all bases of one change, or all changes of one base."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """Which bases a change is for: all without any."""

    base: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What the figures in one column of a table have in common."""

    metric: str = ""
    variant: str = ""
    plugin: str = ""
    scope: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureTable:
    """A table of a paper.

    In `what` and `variant` the words {row} and {column} stand for the names of both, and in the
    `variant` of a column {variant} for that of the row.
    """

    source: str
    rows: tuple[tuple[Any, ...], ...]
    """The row's name; its variant, unless the table says it; a table of its scope, where it has
    one; and a value for each column."""
    columns: Mapping[str, str | Column] = field(default_factory=dict)
    """By name the metric, or a table of what is of this column; without any there is one column."""
    what: str = ""
    metric: str = ""
    variant: str = ""
    plugin: str = ""
    scope: Mapping[str, Any] = field(default_factory=dict)


def expand_study(entries: Sequence[Any]) -> list[Any]:
    """Return the variants of a study as tables, each matrix written out where it stands.

    Raises UsageError for a matrix that names what is not there.
    """
    variants: list[Any] = []
    for entry in entries:
        if isinstance(entry, Mapping) and isinstance(entry.get("matrix"), Mapping):
            variants += _products(entry, variants)
        else:
            variants.append(entry)
    return variants


def _products(entry: Mapping[str, Any], above: Sequence[Any]) -> list[Mapping[str, Any]]:
    """Return the variants of one matrix; the rest of its entry is what all of them share."""
    matrix = build(Matrix, entry["matrix"], "study.matrix")
    shared = {key: value for key, value in entry.items() if key != "matrix"}
    bases = _bases(matrix, above)
    named = _variant_names(matrix, bases)
    for name in matrix.exceptions:
        if name not in named:
            raise unknown_name_error("variant in study.matrix.exceptions", name, named)
    products: list[Mapping[str, Any]] = []
    for name, (base, change) in named.items():
        change_settings = {
            key: value for key, value in matrix.change[change].items() if key != "base"
        }
        settings = merge_tables(
            merge_tables(shared, change_settings), matrix.exceptions.get(name, {})
        )
        if "name" in settings or not name:
            raise UsageError("study.matrix: variants are named by their base and change alone.")
        products.append({**_over(bases[base], settings), "name": name})
    return products


def _bases(matrix: Matrix, above: Sequence[Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return the settings of each base; where there is none, of an empty one."""
    if isinstance(matrix.base, Mapping):
        return matrix.base
    variants = {str(v.get("name")): v for v in above if isinstance(v, Mapping)}
    for name in matrix.base:
        if name not in variants:
            raise unknown_name_error("variant above its study.matrix for a base", name, variants)
    return {name: variants[name] for name in matrix.base} or {"": {}}


def _variant_names(matrix: Matrix, bases: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the names of base and change by the name of their variant, in order."""
    pairs = [
        (base, change)
        for change, settings in matrix.change.items()
        for base in _bases_of_change(change, settings, bases)
    ]
    if matrix.order == "base":
        pairs.sort(key=lambda pair: list(bases).index(pair[0]))
    named: dict[str, tuple[str, str]] = {}
    for pair in pairs:
        name = matrix.join.join(filter(None, pair))
        if name in named:
            raise UsageError(f"study.matrix: two variants are named {name!r}.")
        named[name] = pair
    return named


def _bases_of_change(
    name: str, change: Mapping[str, Any], bases: Mapping[str, Any]
) -> Sequence[str]:
    """Return the names of the bases that a change is for."""
    table = {key: value for key, value in change.items() if key == "base"}
    only = build(Applied, table, f"study.matrix.change.{name}").base
    for base in only:
        if base not in bases:
            raise unknown_name_error(f"base of study.matrix.change.{name}", base, bases)
    return only or tuple(bases)


def _over(base: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a base with `settings` over it.

    Where `settings` limit it to one scale, the base's settings of other scales are left out.
    """
    merged = merge_tables(base, settings)
    only, scale = merged.get("only"), base.get("scale")
    if only and isinstance(scale, Mapping):
        selected = {key: value for key, value in scale.items() if key == only}
        merged = merge_tables({**base, "scale": selected}, settings)
    return merged


def expand_figures(entries: Sequence[Any]) -> list[Any]:
    """Return published figures as tables of one each, a table of many written out row by row.

    Raises UsageError for a row that does not fit the columns.
    """
    return [
        figure
        for entry in entries
        for figure in (_cells(entry) if isinstance(entry, Mapping) and "rows" in entry else [entry])
    ]


def _cells(entry: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the figures of a table."""
    table = build(FigureTable, entry, "figures")
    columns = {
        name: column if isinstance(column, Column) else Column(metric=column)
        for name, column in (table.columns or {"": ""}).items()
    }
    for name, column in columns.items():
        if not (column.metric or table.metric):
            raise UsageError(f"figures of {table.source}: no metric for column {name!r}.")
    description = table.what or ("{row}: {column}" if table.columns else "{row}")
    for cells in table.rows:
        row, variant, scope, values = _split_row(table, cells, len(columns))
        for (name, column), value in zip(columns.items(), values, strict=True):
            words = {"row": row, "column": name, "variant": variant}
            yield {
                "source": table.source,
                "what": _fill_words(description, words),
                "metric": column.metric or table.metric,
                "value": value,
                "variant": _fill_words(column.variant or "{variant}", words),
                "plugin": column.plugin or table.plugin,
                "scope": {**table.scope, **column.scope, **scope},
            }


def _split_row(
    table: FigureTable, cells: Sequence[Any], columns: int
) -> tuple[str, str, Mapping[str, Any], Sequence[Any]]:
    """Return a row's name, variant, scope and values."""
    leading = 1 if table.variant else 2
    names, values = cells[:leading], cells[leading:]
    if len(names) < leading or not all(isinstance(name, str) for name in names):
        expected = "its name" if table.variant else "its name and its variant"
        raise UsageError(f"figures of {table.source}: a row begins with {expected}, not {names!r}.")
    scope: Mapping[str, Any] = {}
    if values and isinstance(values[0], Mapping):
        scope, values = values[0], values[1:]
    if len(values) != columns:
        raise UsageError(
            f"figures of {table.source}: row {names[0]!r} has {len(values)} values for"
            f" {columns} column{'' if columns == 1 else 's'}."
        )
    variant = _fill_words(table.variant, {"row": names[0]}) if table.variant else names[1]
    return names[0], variant, scope, values


def _fill_words(text: str, words: Mapping[str, str]) -> str:
    """Return `text` with each {word} replaced; braces in what replaces it stay."""
    return re.sub(r"\{(\w+)\}", lambda word: words.get(word[1], word[0]), text)
