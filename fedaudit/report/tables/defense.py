"""The tables of a defence: what it guarantees, and how its gate decides."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from fedaudit.api.kind import Table
from fedaudit.report import query as measurements
from fedaudit.report.number_format import format_measurement, format_rate
from fedaudit.report.query import Row, common_scope, missing_reasons
from fedaudit.report.tables import grouping
from fedaudit.report.tables.grouping import client_of, variant_of
from fedaudit.report.tables.table import (
    build_table,
    common_note,
    display_name,
    format_cell,
    shorten,
)

MOST_FUSED = 40

PROMPTS = {
    "right": "the right key",
    "malformed": "a malformed key",
    "empty": "an empty key",
    "none": "no key",
    "random": "a random key",
    "wrong": "a wrong key",
    "other": "another client's key",
}
"""Values of scope.prompts, as people read them."""

EPSILON_COLUMNS = {
    "delta": "delta",
    "noise": "noise_multiplier",
    "sample rate": "sample_rate",
    "steps": "steps",
    "accountant": "accountant",
}
"""The columns of differential privacy, with their keys in the scope."""


def defense(report: Row) -> list[Table]:
    """Return what every defence guarantees, how its gate decides, and how adapters were fused."""
    return [
        *_tables_by_plugin(report, "epsilon", _guarantees),
        *_tables_by_plugin(report, "fpr", _acceptance_table),
        *_tables_by_plugin(report, "routing_accuracy", _routing_table),
        *_tables_by_plugin(report, "loss", _fusion_table),
        *_tables_by_plugin(report, "dropped", _filter_table),
        *_tables_by_plugin(report, "kept", _kept_table),
    ]


def _tables_by_plugin(
    report: Row, metric: str, table: Callable[[str, list[Row]], Table]
) -> list[Table]:
    groups = measurements.by_plugin(measurements.defense_rows(report, metric))
    return [table(plugin, rows) for plugin, rows in groups.items()]


def _guarantees(plugin: str, rows: Sequence[Row]) -> Table:
    """Return the epsilon of every client, or the largest one on each variant of a study."""
    selected = _select_rows(rows, lambda row: row["value"], each_client=True)
    cells = [
        {"epsilon": format_measurement(row)}
        | {name: format_cell(row["scope"].get(key)) for name, key in EPSILON_COLUMNS.items()}
        for row, _ in selected
    ]
    return _build_defense_table(
        f"What the defence guarantees: {plugin}",
        rows,
        selected,
        cells,
        ("epsilon", *EPSILON_COLUMNS),
        hidden=EPSILON_COLUMNS.values(),
    )


def _acceptance_table(plugin: str, rows: Sequence[Row]) -> Table:
    """Return how many requests without a right key the gate took for one that has it."""
    selected = _select_rows(rows, lambda row: (row["value"], row["high"]))
    cells = [
        {"tried": format_cell(row["scope"]["attempt"]), "let in by mistake": format_rate(row)}
        for row, _ in selected
    ]
    columns = ("tried", "let in by mistake")
    return _build_defense_table(
        f"False accepts of the gate: {plugin}", rows, selected, cells, columns, hidden=("attempt",)
    )


def _routing_table(plugin: str, rows: Sequence[Row]) -> Table:
    """Return how many requests the gate sent to the adapter that they are for."""
    selected = _select_rows(rows, lambda row: (-row["value"], -row["low"]))
    cells = [
        {
            "requests with": display_name(PROMPTS, row["scope"].get("prompts")),
            "sent to the right adapter": format_rate(row),
        }
        for row, _ in selected
    ]
    columns = ("requests with", "sent to the right adapter")
    return _build_defense_table(
        f"Routing by the gate: {plugin}", rows, selected, cells, columns, hidden=("prompts",)
    )


def _fusion_table(plugin: str, rows: Sequence[Row]) -> Table:
    """Return with which weights the adapters of every client were fused."""
    selected = [(row, client_of(row)) for row in grouping.without_covered_clients(rows)]
    cells = [
        {
            "adapter": format_cell(row["scope"].get("adapter")),
            "weights": format_cell(row["scope"].get("weights")),
            "loss": format_measurement(row),
        }
        for row, _ in selected
    ]
    table = _build_defense_table(
        f"Fusion of adapters: {plugin}",
        rows,
        selected,
        cells,
        ("adapter", "weights", "loss"),
        hidden=("adapter", "weights", "stage"),
    )
    return shorten(table, MOST_FUSED)


def _filter_table(plugin: str, rows: Sequence[Row]) -> Table:
    """Return how many made-up examples each filter dropped in all rounds together."""
    totals = [row for row in rows if "round" not in row["scope"]]
    selected = _select_rows(totals, lambda row: row["value"], each_client=True)
    cells = [
        {"filter": format_cell(row["scope"].get("filter")), "dropped": format_rate(row)}
        for row, _ in selected
    ]
    title = f"What the filters of made-up examples dropped: {plugin}"
    return _build_defense_table(
        title, totals, selected, cells, ("filter", "dropped"), hidden=("filter",)
    )


def _kept_table(plugin: str, rows: Sequence[Row]) -> Table:
    """Return how many made-up examples were trained on at the client that kept fewest."""
    selected = _select_rows(rows, lambda row: -row["value"], each_client=True)
    keys = ("round", "mean", "highest", "alike")
    cells = [
        {"round": format_cell(row["scope"].get("round")), "kept": format_measurement(row)}
        | {name: format_cell(row["scope"].get(name)) for name in keys[1:]}
        for row, _ in selected
    ]
    title = f"Made-up examples that were kept: {plugin}"
    columns = ("round", "kept", *keys[1:])
    table = _build_defense_table(title, rows, selected, cells, columns, hidden=(*keys, "clients"))
    return shorten(table, MOST_FUSED)


def _select_rows(
    rows: Sequence[Row], bad: Callable[[Row], Any], *, each_client: bool = False
) -> list[tuple[Row, str]]:
    """Return the rows to show, and at which of how many clients each was measured.

    In a study that is the worst of each variant; else the worst client of each line, or every one.
    """
    rows = grouping.without_covered_clients(rows)
    if len(grouping.variants_of(rows)) > 1:
        return grouping.worst_rows(rows, variant_of, bad)
    if each_client:
        return [(row, client_of(row)) for row in rows]
    return grouping.worst_rows(rows, lambda row: grouping.scope_without(row, {"client"}), bad)


def _build_defense_table(
    title: str,
    rows: Sequence[Row],
    selected: Sequence[tuple[Row, str]],
    cells: Sequence[Mapping[str, str]],
    columns: Sequence[str],
    *,
    hidden: Collection[str],
) -> Table:
    """Return the table of the `selected` rows, with their `cells` beside variant and client."""
    is_study = len(grouping.variants_of(rows)) > 1
    besides = {"client", *hidden, *(("variant",) if is_study else ())}
    shared, scopes = common_scope([row for row, _ in selected], besides)
    lines = [
        {
            "variant": variant_of(row) if is_study else "",
            "client": at_client,
            **line,
            "where": scope,
        }
        for (row, at_client), line, scope in zip(selected, cells, scopes, strict=True)
    ]
    worst = (
        f"The worst {'of' if is_study else 'client for'} each {'variant' if is_study else 'line'}"
    )
    return build_table(
        title,
        lines,
        ("variant", "client", *columns, "where"),
        numeric=("epsilon", "delta", "noise", "sample rate", "steps", "loss"),
        notes=(
            f"{worst}; for the others see report.json." if len(selected) < len(rows) else "",
            *common_note(shared),
            *missing_reasons(rows),
        ),
    )
