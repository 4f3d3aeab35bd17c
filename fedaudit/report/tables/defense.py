"""The tables of a defence: what it guarantees, and how its gate decides."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, kw_only=True)
class DefenseTable:
    """A table of one metric of a defence: a line a client, or the worst of each line or variant."""

    metric: str
    title: str
    bad: Callable[[Row], Any] | None
    """Higher where a row is worse; None to show every row."""
    columns: Mapping[str, Callable[[Row], str]]
    hidden: Collection[str]
    """The parts of a scope that columns show."""
    each_client: bool = False
    most: int | None = None


def _scope_cell(name: str) -> Callable[[Row], str]:
    return lambda row: format_cell(row["scope"].get(name))


TABLES = (
    DefenseTable(
        metric="epsilon",
        title="What the defence guarantees",
        bad=lambda row: row["value"],
        columns={"epsilon": format_measurement}
        | {name: _scope_cell(key) for name, key in EPSILON_COLUMNS.items()},
        hidden=EPSILON_COLUMNS.values(),
        each_client=True,
    ),
    DefenseTable(
        metric="fpr",
        title="False accepts of the gate",
        bad=lambda row: (row["value"], row["high"]),
        columns={"tried": _scope_cell("attempt"), "let in by mistake": format_rate},
        hidden=("attempt",),
    ),
    DefenseTable(
        metric="routing_accuracy",
        title="Routing by the gate",
        bad=lambda row: (-row["value"], -row["low"]),
        columns={
            "requests with": lambda row: display_name(PROMPTS, row["scope"].get("prompts")),
            "sent to the right adapter": format_rate,
        },
        hidden=("prompts",),
    ),
    DefenseTable(
        metric="loss",
        title="Fusion of adapters",
        bad=None,
        columns={
            "adapter": _scope_cell("adapter"),
            "weights": _scope_cell("weights"),
            "loss": format_measurement,
        },
        hidden=("adapter", "weights", "stage"),
        most=MOST_FUSED,
    ),
    DefenseTable(
        metric="dropped",
        title="What the filters of made-up examples dropped",
        bad=lambda row: row["value"],
        columns={"filter": _scope_cell("filter"), "dropped": format_rate},
        hidden=("filter",),
        each_client=True,
    ),
    DefenseTable(
        metric="kept",
        title="Made-up examples that were kept",
        bad=lambda row: -row["value"],
        columns={"round": _scope_cell("round"), "kept": format_measurement}
        | {name: _scope_cell(name) for name in ("mean", "highest", "alike")},
        hidden=("round", "mean", "highest", "alike", "clients"),
        each_client=True,
        most=MOST_FUSED,
    ),
)


def defense(report: Row) -> list[Table]:
    """Return what every defence guarantees, how its gate decides, and how adapters were fused."""
    tables = []
    for table in TABLES:
        rows_of = measurements.by_plugin(measurements.defense_rows(report, table.metric))
        for plugin, every in rows_of.items():
            # Filters are counted in all rounds together.
            rows = [r for r in every if table.metric != "dropped" or "round" not in r["scope"]]
            built = _build(f"{table.title}: {plugin}", table, rows)
            tables.append(built if table.most is None else shorten(built, table.most))
    return tables


def _select_rows(table: DefenseTable, rows: Sequence[Row]) -> list[tuple[Row, str]]:
    """Return the rows to show, and at which of how many clients each was measured.

    In a study that is the worst of each variant; else the worst client of each line, or every one.
    """
    rows = grouping.without_covered_clients(rows)
    if table.bad is None:
        return [(row, client_of(row)) for row in rows]
    if len(grouping.variants_of(rows)) > 1:
        return grouping.worst_rows(rows, variant_of, table.bad)
    if table.each_client:
        return [(row, client_of(row)) for row in rows]
    return grouping.worst_rows(rows, lambda row: grouping.scope_without(row, {"client"}), table.bad)


def _build(title: str, table: DefenseTable, rows: Sequence[Row]) -> Table:
    """Return a table of the selected rows, with their variant and client."""
    selected = _select_rows(table, rows)
    is_study = len(grouping.variants_of(rows)) > 1
    besides = {"client", *table.hidden, *(("variant",) if is_study else ())}
    shared, scopes = common_scope([row for row, _ in selected], besides)
    lines = [
        {
            "variant": variant_of(row) if is_study else "",
            "client": at_client,
            **{name: cell(row) for name, cell in table.columns.items()},
            "where": scope,
        }
        for (row, at_client), scope in zip(selected, scopes, strict=True)
    ]
    worst = (
        f"The worst {'of' if is_study else 'client for'} each {'variant' if is_study else 'line'}"
    )
    return build_table(
        title,
        lines,
        ("variant", "client", *table.columns, "where"),
        numeric=("epsilon", "delta", "noise", "sample rate", "steps", "loss"),
        notes=(
            f"{worst}; for the others see report.json." if len(selected) < len(rows) else "",
            *common_note(shared),
            *missing_reasons(rows),
        ),
    )
