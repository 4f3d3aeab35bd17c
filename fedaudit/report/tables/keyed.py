"""Tables of attacks that were made under several keys or on several variants of a study.

One line has all that was found under one key on one variant: what came out, and beside it what the
base gives and what guessing gets.
"""

from collections.abc import Callable, Mapping, Sequence

from fedaudit.report.number_format import found, measured, percent
from fedaudit.report.query import SOURCES, Row, places, reasons, sibling
from fedaudit.report.tables import grouping
from fedaudit.report.tables.grouping import EVERYBODY, KEYS, client, key, variant
from fedaudit.report.tables.table import NONE, Table, laid_out, named, throughout

Beside = Mapping[str, Callable[[Row], str]]
"""The cells of further columns by their names, from the row that a line is of."""


def viewed(
    title: str, rows: Sequence[Row], some: Sequence[Row], value: str, beside: Beside
) -> Table:
    """Return a line for each of `some`, which `lines.telling` chose among `rows` of one attack.

    `value` is the name of the column for what was measured.
    """
    hidden, pooled = grouping.hidden(rows), len(grouping.together(rows)) < len(rows)
    everybody = {"client"} if all(client(row) == EVERYBODY for row in some) else set()
    shared, own = places(some, {*hidden, *everybody, "detection"})
    models = list(dict.fromkeys(map(_model, some)))
    cells = [
        {
            "variant": variant(row) if "variant" in hidden else "",
            "key": key(row),
            "model": _model(row) if len(models) > 1 else "",
            "found": found(row),
            value: measured(row),
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
            *throughout(shared),
            "Over all clients; for each of them see report.json." if pooled else "",
            *reasons(rows),
        ),
    )


def compared(rows: Sequence[Row], source: str) -> Callable[[Row], str]:
    """Return what gives a line the number of `source` that it is to be compared with.

    With its interval, unless the variants of a study take the room for it.
    """
    short = len(grouping.variants(rows)) > 1

    def told(row: Row) -> str:
        other = sibling(rows, row, source)
        if other is None:
            known = source == "base" and row["baseline"] is not None
            return percent(row["baseline"]) if known else NONE
        return percent(other["value"]) if short else measured(other)

    return told


def kinds(title: str, rows: Sequence[Row], notes: Sequence[str] = ()) -> Table:
    """Return what came out by kind of PII, under a right key and without one side by side.

    `rows` are those of one attack that have labels. Of several variants the first is shown, and
    where something else varies, its first value.
    """
    first = grouping.one(rows)
    some = grouping.telling(first)
    keys = grouping.two_keys(some)
    cells: dict[str, dict[str, Row]] = {}
    for row in some:
        if key(row) in keys:
            cells.setdefault(str(row["scope"]["label"]), {}).setdefault(key(row), row)
    headers = {one: f"{_header(one)} [95 %]" for one in keys}
    base = compared(first, "base")
    return laid_out(
        title,
        [_kind(label, cells[label], headers, base) for label in _order(cells)],
        ("label", "n", *headers.values(), "base"),
        numeric=("n", *headers.values(), "base"),
        notes=(
            f"Model: {_model(some[0])}.",
            *throughout(places(some, {"key", "adapter", "detection"})[0]),
            *notes,
            _more(rows, some, keys),
            *reasons(some),
        ),
    )


def more_variants(rows: Sequence[Row]) -> str:
    """Return the note of a table by kind that shows one variant of several."""
    names = grouping.variants(rows)
    return f"Variant {names[0]}; for the others see report.json." if len(names) > 1 else ""


def _more(rows: Sequence[Row], some: Sequence[Row], keys: Sequence[str]) -> str:
    left = len(set(map(key, some))) > len(keys)
    parts = [
        *(["variants"] if len(grouping.variants(rows)) > 1 else []),
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
        **{headers[key]: measured(row) for key, row in rows.items()},
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
    return named(SOURCES, row["scope"].get("source"))
