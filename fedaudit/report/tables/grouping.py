"""Which measurements share a line of a table: of one variant, key or victim, of all clients."""

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any

from fedaudit.report.query import Row, comparable_row, group_by, set_rank, source_rank

KEYS = {
    "right": "right key",
    "wrong": "wrong key",
    "none": "no key",
    "other": "other's key",
}
"""Values of scope.key in reading order, as people read them."""

EVERYBODY = "all"
"""scope.client of what was pooled over all clients."""


def key_text(row: Row) -> str:
    """Return under which key a model was asked, with the adapter that it opens: `right: legal`."""
    scope = row["scope"]
    if "key" not in scope:
        return ""
    return f"{scope['key']}: {scope['adapter']}" if "adapter" in scope else str(scope["key"])


def key_rank(row: Row) -> int:
    """Return the position of a row's kind of key in reading order."""
    kind, order = str(row["scope"].get("key")), [*KEYS]
    return order.index(kind) if kind in order else len(order)


def variant_of(row: Row) -> str:
    """Return the variant of a study that a row was measured on, if any."""
    return str(row["scope"].get("variant", ""))


def variants_of(rows: Iterable[Row]) -> list[str]:
    """Return the variants of `rows` in the order of the report."""
    return list(dict.fromkeys(name for row in rows if (name := variant_of(row))))


def victim_of(row: Row) -> str:
    """Return the client whose records were looked for, if several were in turn."""
    return str(row["scope"].get("victim", ""))


def victims_of(rows: Iterable[Row]) -> list[str]:
    """Return the victims of `rows` in the order of the report."""
    return list(dict.fromkeys(name for row in rows if (name := victim_of(row))))


def client_of(row: Row) -> str:
    """Return the client that a row was measured at, if any."""
    return str(row["scope"].get("client", ""))


def has_many_lines(rows: Sequence[Row]) -> bool:
    """Tell whether `rows` are to have one line for each variant, key or victim."""
    return bool(column_scopes(rows))


def column_scopes(rows: Sequence[Row]) -> set[str]:
    """Return the keys of the scopes that columns for variant, key and victim show."""
    keys = {"key", "adapter"} if any("key" in row["scope"] for row in rows) else set()
    several = {"variant": variants_of(rows), "victim": victims_of(rows)}
    return keys | {name for name, values in several.items() if len(values) > 1}


def scope_without(row: Row, but: Collection[str]) -> tuple[object, ...]:
    """Return a key that two rows share if their scopes differ only in the keys `but`."""
    scope = ((name, str(value)) for name, value in row["scope"].items() if name not in but)
    return (row["plugin"], row["metric"], *sorted(scope))


def without_covered_clients(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of a study without those of a client that a row of all clients stands for.

    Where there are no variants to compare, every row stays.
    """
    if len(variants_of(rows)) < 2:
        return list(rows)
    pooled = {scope_without(row, {"client"}) for row in rows if client_of(row) == EVERYBODY}
    return [
        row
        for row in rows
        if client_of(row) in ("", EVERYBODY) or scope_without(row, {"client"}) not in pooled
    ]


def order_rows(rows: Iterable[Row]) -> list[Row]:
    """Return rows by variant as the report has them, then by key in reading order."""
    rows = list(rows)
    order = ["", *variants_of(rows)]
    return sorted(
        rows, key=lambda row: (order.index(variant_of(row)), key_rank(row), key_text(row))
    )


def preferred_source_rows(rows: Sequence[Row]) -> list[Row]:
    """Return for each scope the row of the preferred source, in order.

    That is what came out beyond the base, else of the tuned model. Rows of base and control that
    another one is compared with are left out.
    """
    groups = group_by(without_covered_clients(rows), lambda row: scope_without(row, {"source"}))
    best = [min(group, key=source_rank) for group in groups.values()]
    selected = [row for row in best if source_rank(row) < 2 or not _is_baseline(row, best, rows)]
    return order_rows(selected or best)


def single_group(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of one variant, and of one value of whatever else varies but kind and key.

    The first variant of the report, all clients, all targets, what the detector found.
    """
    order = ["", *variants_of(rows)]
    best = min(
        without_covered_clients(rows),
        key=lambda r: (order.index(variant_of(r)), set_rank(r), "detection" in r["scope"]),
    )
    free = {"source", "label", "key", "adapter"}
    return [row for row in rows if scope_without(row, free) == scope_without(best, free)]


def two_keys(rows: Sequence[Row]) -> list[str]:
    """Return the two keys to show side by side: a right one and none, or else the first two."""
    keys = list(dict.fromkeys(map(key_text, order_rows(rows))))
    kinds = {kind: [key for key in keys if key.partition(":")[0] == kind] for kind in KEYS}
    if kinds["right"] and kinds["none"]:
        return [kinds["right"][0], kinds["none"][0]]
    return keys[:2]


def _is_baseline(row: Row, lines: Sequence[Row], rows: Sequence[Row]) -> bool:
    """Tell whether `row` is what one of `lines` is compared with."""
    source = str(row["scope"].get("source"))
    return any(comparable_row(rows, line, source) is row for line in lines if line is not row)


def worst_rows(
    rows: Iterable[Row], line: Callable[[Row], Hashable], bad: Callable[[Row], Any]
) -> list[tuple[Row, str]]:
    """Return the worst row of each line, and at which of how many clients it was measured.

    `line` names the line of a row, `bad` is higher where it is worse. What was not measured is
    chosen only where nothing of its line was; of rows as bad, the first by scope.
    """

    def worst(group: Sequence[Row]) -> Row:
        first = sorted(group, key=lambda row: str(sorted(row["scope"].items())))
        return max(first, key=lambda row: () if row["value"] is None else (bad(row),))

    worst_of = ((worst(group), group) for group in group_by(rows, line).values())
    return [(row, _client_label(row, group)) for row, group in worst_of]


def _client_label(row: Row, group: Sequence[Row]) -> str:
    """Return the client of a row that was chosen from those of several: `c2 of 3`."""
    clients = {client_of(r) for r in group} - {"", EVERYBODY}
    if len(clients) < 2 or client_of(row) == EVERYBODY:
        return client_of(row)
    same = all((r["value"], r["n"]) == (row["value"], row["n"]) for r in group)
    return f"each of {len(clients)}" if same else f"{client_of(row)} of {len(clients)}"
