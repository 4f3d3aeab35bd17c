"""Tables of attacks under several keys, on several variants of a study, or on several victims.

One line has all that was found of one victim under one key on one variant: what came out, and
beside it what the base gives and what guessing gets.
"""

from collections.abc import Callable, Mapping, Sequence

from fedaudit.api.kind import Table
from fedaudit.report.number_format import format_hits, format_measurement, percent
from fedaudit.report.query import Row, common_scope, comparable_row, missing_reasons
from fedaudit.report.tables import grouping
from fedaudit.report.tables.grouping import (
    EVERYBODY,
    KEYS,
    client_of,
    key_text,
    variant_of,
    victim_of,
)
from fedaudit.report.tables.table import NONE, Columns, build_table, common_note, model_name


def keyed_lines(
    title: str, rows: Sequence[Row], selected: Sequence[Row], value: str, beside: Columns
) -> Table:
    """Return a line for each `selected` row among `rows` of one attack (`preferred_source_rows`).

    `value` is the name of the column for what was measured.
    """
    hidden = grouping.column_scopes(rows)
    pooled = len(grouping.without_covered_clients(rows)) < len(rows)
    everybody = {"client"} if all(client_of(row) == EVERYBODY for row in selected) else set()
    shared, scopes = common_scope(selected, {*hidden, *everybody, "detection"})
    models = list(dict.fromkeys(map(model_name, selected)))
    cells = [
        {
            "variant": variant_of(row) if "variant" in hidden else "",
            "key": key_text(row),
            "victim": victim_of(row) if "victim" in hidden else "",
            "model": model_name(row) if len(models) > 1 else "",
            "found": format_hits(row),
            value: format_measurement(row),
            **{name: formatter(row) for name, formatter in beside.items()},
            "where": scope,
        }
        for row, scope in zip(selected, scopes, strict=True)
    ]
    return build_table(
        title,
        cells,
        ("variant", "key", "victim", "model", "found", value, *beside, "where"),
        numeric=("found", value, *beside),
        notes=(
            f"Model: {models[0]}." if len(models) == 1 else "",
            *common_note(shared),
            "Over all clients; for each of them see report.json." if pooled else "",
            *missing_reasons(rows),
        ),
    )


def comparison(rows: Sequence[Row], source: str) -> Callable[[Row], str]:
    """Return a function that formats the number of `source` that a row is compared with.

    The interval is added, unless the variants of a study need its room.
    """
    short = len(grouping.variants_of(rows)) > 1

    def format_comparison(row: Row) -> str:
        match = comparable_row(rows, row, source)
        if match is None:
            has_baseline = source == "base" and row["baseline"] is not None
            return percent(row["baseline"]) if has_baseline else NONE
        return percent(match["value"]) if short else format_measurement(match)

    return format_comparison


def kinds_by_key(title: str, rows: Sequence[Row], notes: Sequence[str] = ()) -> Table:
    """Return what came out by kind of PII, under a right key and without one side by side.

    `rows` are those of one attack that have labels. Of several variants the first is shown, and
    where something else varies, its first value.
    """
    first = grouping.single_group(rows)
    selected = grouping.preferred_source_rows(first)
    keys = grouping.two_keys(selected)
    cells: dict[str, dict[str, Row]] = {}
    for row in selected:
        if key_text(row) in keys:
            cells.setdefault(str(row["scope"]["label"]), {}).setdefault(key_text(row), row)
    headers = {key: f"{_header(key)} [95 %]" for key in keys}
    base = comparison(first, "base")
    return build_table(
        title,
        [_kind(label, cells[label], headers, base) for label in _order(cells)],
        ("label", "n", *headers.values(), "base"),
        numeric=("n", *headers.values(), "base"),
        notes=(
            f"Model: {model_name(selected[0])}.",
            *common_note(common_scope(selected, {"key", "adapter", "detection"})[0]),
            *notes,
            _omission_note(rows, selected, keys),
            *missing_reasons(selected),
        ),
    )


def more_variants(rows: Sequence[Row]) -> str:
    """Return the note of a table by kind that shows one variant, or one victim, of several."""
    several = {"Variant": grouping.variants_of(rows), "Victim": grouping.victims_of(rows)}
    shown = [f"{what} {names[0]}" for what, names in several.items() if len(names) > 1]
    return f"{', '.join(shown)}; for the others see report.json." if shown else ""


def _omission_note(rows: Sequence[Row], selected: Sequence[Row], keys: Sequence[str]) -> str:
    has_more_keys = len(set(map(key_text, selected))) > len(keys)
    names = [
        *(["variants"] if len(grouping.variants_of(rows)) > 1 else []),
        *(["keys"] if has_more_keys else []),
    ]
    return f"For the other {' and '.join(names)} see report.json." if names else ""


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
    label = KEYS.get(kind, f"key {kind}" if kind else "value")
    return f"{label}: {adapter}" if adapter else label
