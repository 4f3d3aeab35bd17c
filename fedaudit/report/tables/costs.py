"""The tables of costs: what a federation took, in units that people use."""

from collections.abc import Callable, Mapping, Sequence

from fedaudit.api.kind import Table
from fedaudit.report import query as measurements
from fedaudit.report import units
from fedaudit.report.number_format import NOT_MEASURED
from fedaudit.report.query import Row, group_by, missing_reasons, scope_of
from fedaudit.report.tables import grouping
from fedaudit.report.tables.grouping import variant_of
from fedaudit.report.tables.table import build_table, display_name, format_cell

UNITS: Mapping[str, Callable[[float], str]] = {
    "parameters": units.amount,
    "bytes_sent": units.size,
    "flops": units.operations,
    "seconds": units.duration,
}

TITLES = {
    "parameters": "numbers",
    "bytes_sent": "sent",
    "flops": "computing",
    "seconds": "time",
}
"""The names of cost metrics as people read them."""

TRAINED = {
    "frozen": "base, not trained",
    "federated": "trained together",
    "private": "trained in private",
}
"""Values of scope.stage, or else of scope.which, for the numbers of a model."""

STAGES = {
    "federated": "training together",
    "private": "training in private",
    "fusion": "fusing adapters",
    "gating": "the gate",
    "adapter": "the adapter",
}
DIRECTIONS = {"up": "clients to server", "down": "server to clients"}
"""Values of scope.stage and scope.direction, as people read them."""

TIMED = {"gating": "the gate, a request", "adapter": "the adapter, a request"}
"""Values of scope.stage for times, as people read them."""

SUBJECTS: Mapping[str, tuple[Mapping[str, str], tuple[str, ...]]] = {
    "parameters": (TRAINED, ("stage", "which")),
    "bytes_sent": (DIRECTIONS, ("direction",)),
    "flops": (STAGES, ("stage",)),
    "seconds": (TIMED, ("stage",)),
}
"""Names of a metric's subject, and the scope keys that hold it."""

SHOWN_KEYS = {"which", "stage", "direction", "per_client_round", "transfers", "client"}
"""The scope keys that cells express in words."""

MAXIMUM_NOTE = (
    "Where clients differ, the most that one of them took; for the others see report.json."
)


def costs(report: Row) -> list[Table]:
    """Return the table of what the run cost, or one for each metric that compares variants."""
    rows = measurements.costs(report)
    if len(grouping.variants_of(rows)) > 1:
        groups = group_by(rows, lambda row: str(row["metric"]))
        return [_variants(metric, group) for metric, group in groups.items()]
    return [_costs(rows)] if rows else []


def _costs(rows: Sequence[Row]) -> Table:
    worst_rows = grouping.worst_rows(
        rows, lambda row: grouping.scope_without(row, {"client"}), lambda row: row["value"]
    )
    return build_table(
        "Costs",
        [
            {
                "what": f"{TITLES[row['metric']]}: {_cost_subject(row)}",
                "amount": _amount(row),
                "client": client,
                "detail": _detail(row),
            }
            for row, client in worst_rows
        ],
        numeric=("amount",),
        notes=(MAXIMUM_NOTE if len(worst_rows) < len(rows) else "", *missing_reasons(rows)),
    )


def _variants(metric: str, rows: Sequence[Row]) -> Table:
    """Return a line for each variant and a column for each stage or direction of `metric`."""
    worst_rows = grouping.worst_rows(
        grouping.without_covered_clients(rows),
        lambda row: (variant_of(row), _cost_subject(row)),
        lambda row: row["value"],
    )
    groups = group_by((row for row, _ in worst_rows), variant_of)
    lines = [
        {"variant": name, **{_cost_subject(row): _amount(row) for row in group}}
        for name, group in groups.items()
    ]
    columns = list(dict.fromkeys(_cost_subject(row) for row, _ in worst_rows))
    return build_table(
        f"Costs: {TITLES[metric]}",
        lines,
        ("variant", *columns),
        numeric=columns,
        notes=(MAXIMUM_NOTE if len(worst_rows) < len(rows) else "", *missing_reasons(rows)),
    )


def _cost_subject(row: Row) -> str:
    """Return a cost's subject: a stage, a direction or the frozen base."""
    scope = row["scope"]
    names, keys = SUBJECTS[row["metric"]]
    values = [scope[key] for key in keys if scope.get(key) is not None]
    return display_name(names, values[0] if values else row["plugin"])


def _amount(row: Row) -> str:
    return NOT_MEASURED if row["value"] is None else UNITS[row["metric"]](row["value"])


def _detail(row: Row) -> str:
    """Return how often and how much was sent, and the rest of a cost's scope."""
    size, times = row["scope"].get("per_client_round"), row["scope"].get("transfers")
    sent = ""
    if size is not None and times is not None:
        each = units.size(size) if isinstance(size, int | float) else str(size)
        sent = f"{format_cell(times)} times {each}"
    return ", ".join(filter(None, (sent, scope_of(row, SHOWN_KEYS))))
