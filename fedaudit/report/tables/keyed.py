"""Tables of attacks that were made under several keys or on several variants of a study.

One line has all that was found under one key on one variant: what came out, and beside it what the
base gives and what guessing gets.
"""

from collections.abc import Callable, Mapping, Sequence

from fedaudit.report.number_format import format_hits, format_measurement, percent
from fedaudit.report.query import SOURCES, Row, common_scope, comparable_row, missing_reasons
from fedaudit.report.tables import grouping
from fedaudit.report.tables.grouping import EVERYBODY, KEYS, client_of, key_text, variant_of
from fedaudit.report.tables.table import NONE, Table, common_note, display_name, laid_out

Beside = Mapping[str, Callable[[Row], str]]
"""The cells of further columns by their names, from the row that a line is of."""


def keyed_lines(
    title: str, rows: Sequence[Row], some: Sequence[Row], value: str, beside: Beside
) -> Table:
    """Return a line for each of `some`, which `lines.telling` chose among `rows` of one attack.

    `value` is the name of the column for what was measured.
    """
    hidden, pooled = (
        grouping.column_scopes(rows),
        len(grouping.without_covered_clients(rows)) < len(rows),
    )
    everybody = {"client"} if all(client_of(row) == EVERYBODY for row in some) else set()
    shared, own = common_scope(some, {*hidden, *everybody, "detection"})
    models = list(dict.fromkeys(map(_model, some)))
    cells = [
        {
            "variant": variant_of(row) if "variant" in hidden else "",
            "key": key_text(row),
            "model": _model(row) if len(models) > 1 else "",
            "found": format_hits(row),
            value: format_measurement(row),
            **{name: told(row) for name, told in beside.items()},
            "where": at,
        }
        for row, at in zip(some, own, strict=True)
    ]
    return laid_out(
        title,
        cells,
        ("variant", "key", "model", "found", value, *beside, "where"),
        numeric=("found", value, *beside),
        notes=(
            f"Model: {models[0]}." if len(models) == 1 else "",
            *common_note(shared),
            "Over all clients; for each of them see report.json." if pooled else "",
            *missing_reasons(rows),
        ),
    )


def comparison(rows: Sequence[Row], source: str) -> Callable[[Row], str]:
    """Return what gives a line the number of `source` that it is to be compared with.

    With its interval, unless the variants of a study take the room for it.
    """
    short = len(grouping.variants_of(rows)) > 1

    def told(row: Row) -> str:
        other = comparable_row(rows, row, source)
        if other is None:
            known = source == "base" and row["baseline"] is not None
            return percent(row["baseline"]) if known else NONE
        return percent(other["value"]) if short else format_measurement(other)

    return told


def kinds_by_key(title: str, rows: Sequence[Row], notes: Sequence[str] = ()) -> Table:
    """Return what came out by kind of PII, under a right key and without one side by side.

    `rows` are those of one attack that have labels. Of several variants the first is shown, and
    where something else varies, its first value.
    """
    first = grouping.single_group(rows)
    some = grouping.telling_rows(first)
    keys = grouping.two_keys(some)
    cells: dict[str, dict[str, Row]] = {}
    for row in some:
        if key_text(row) in keys:
            cells.setdefault(str(row["scope"]["label"]), {}).setdefault(key_text(row), row)
    headers = {one: f"{_header(one)} [95 %]" for one in keys}
    base = comparison(first, "base")
    return laid_out(
        title,
        [_kind(label, cells[label], headers, base) for label in _order(cells)],
        ("label", "n", *headers.values(), "base"),
        numeric=("n", *headers.values(), "base"),
        notes=(
            f"Model: {_model(some[0])}.",
            *common_note(common_scope(some, {"key", "adapter", "detection"})[0]),
            *notes,
            _more(rows, some, keys),
            *missing_reasons(some),
        ),
    )


def more_variants(rows: Sequence[Row]) -> str:
    """Return the note of a table by kind that shows one variant of several."""
    names = grouping.variants_of(rows)
    return f"Variant {names[0]}; for the others see report.json." if len(names) > 1 else ""


def _more(rows: Sequence[Row], some: Sequence[Row], keys: Sequence[str]) -> str:
    left = len(set(map(key_text, some))) > len(keys)
    parts = [
        *(["variants"] if len(grouping.variants_of(rows)) > 1 else []),
        *(["keys"] if left else []),
    ]
    return f"For the other {' and '.join(parts)} see report.json." if parts else ""


def _kind(
    label: str, rows: Mapping[str, Row], headers: Mapping[str, str], base: Callable[[Row], str]
) -> dict[str, str]:
    counts = dict.fromkeys(f"{row['n']:,}" for row in rows.values() if row["n"] is not None)
    return {
        "label": label,
        "n": "/".join(counts),
        **{headers[key]: format_measurement(row) for key, row in rows.items()},
        "base": base(next(iter(rows.values()))),
    }


def _order(cells: Mapping[str, Mapping[str, Row]]) -> list[str]:
    """Return the labels of what came out most often first."""

    def size(label: str) -> tuple[int, int, str]:
        row = next(iter(cells[label].values()))
        return -(row["hits"] or 0), -(row["n"] or 0), label

    return sorted(cells, key=size)


def _header(name: str) -> str:
    kind, _, adapter = name.partition(": ")
    known = KEYS.get(kind, f"key {kind}" if kind else "value")
    return f"{known}: {adapter}" if adapter else known


def _model(row: Row) -> str:
    return display_name(SOURCES, row["scope"].get("source"))
