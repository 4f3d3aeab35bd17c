"""The tables of defences: what each guarantees, how its gate decides, what it would have bought."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedaudit.api.kind import Table
from fedaudit.report import query as measurements
from fedaudit.report.number_format import format_measurement, format_rate, number
from fedaudit.report.query import Row
from fedaudit.report.redaction import make_visible
from fedaudit.report.tables import grouping
from fedaudit.report.tables.grouping import client_of, variant_of
from fedaudit.report.tables.table import (
    NONE,
    Columns,
    build_table,
    display_name,
    format_cell,
    row_table,
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
    columns: Columns
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
    selected = _select_rows(table, rows)
    is_study = len(grouping.variants_of(rows)) > 1
    client_of_line = {id(row): client for row, client in selected}
    worst = (
        f"The worst {'of' if is_study else 'client for'} each {'variant' if is_study else 'line'}"
    )
    return row_table(
        title,
        [row for row, _ in selected],
        {
            "variant": lambda row: variant_of(row) if is_study else "",
            "client": lambda row: client_of_line[id(row)],
            **table.columns,
        },
        numeric=("epsilon", "delta", "noise", "sample rate", "steps", "loss"),
        hidden={"client", *table.hidden, *(("variant",) if is_study else ())},
        notes=(f"{worst}; for the others see report.json." if len(selected) < len(rows) else "",),
        unmeasured=rows,
    )


SEEDS = (
    "Means over the seeds {seeds}, none of them that of the audited federation; change: less"
    " training without a defence, with the same seeds, records and questions. Intervals of 95 %"
    " hold seeds and records, and are not adjusted for how many defences there are. Nothing here"
    " is part of the verdict."
)
CAME_OUT = (
    "Came out: targets of {victim} that {attacker} drew out of the tuned model and not of its base;"
    " of a defence that answers by keys, under the wrong key that let most out."
)


def defense_tables(report: Row) -> list[Table]:
    """Return the tables of each defence's gain, with recommendations, and of each one's cost."""
    defenses = report.get("defenses")
    if not defenses:
        return []
    measured = [trial for trial in defenses["tried"] if not trial["reason"]]
    tables = [
        *([_defense_table(defenses, measured), _cost(measured)] if measured else []),
        *_missing(defenses),
    ]
    recommendations = tuple(make_visible(line) for line in defenses["recommendations"])
    return [replace(tables[0], notes=(*recommendations, *tables[0].notes)), *tables[1:]]


def _defense_table(defenses: Row, measured: list[Row]) -> Table:
    seeds = ", ".join(map(str, defenses["seeds"]))
    clients = {name: make_visible(defenses[name]) for name in ("attacker", "victim")}
    numeric = ("came out [95 %]", "change, points [95 %]")
    return Table(
        title="What each defence would have bought",
        columns=("defence", "attack", *numeric),
        rows=tuple(row for trial in measured for row in _leaks(trial)),
        numeric=frozenset(numeric),
        notes=(CAME_OUT.format(**clients), SEEDS.format(seeds=seeds)),
    )


def _leaks(trial: Row) -> Iterator[tuple[str, ...]]:
    for leak in trial["leaks"]:
        yield (
            make_visible(trial["defense"]),
            make_visible(leak["attack"]),
            _estimate(leak["mean"], 100, "{:.1f}"),
            _estimate(leak["difference"], 100, "{:+.1f}"),
        )


def _cost(measured: list[Row]) -> Table:
    lines = [
        {
            "defence": make_visible(trial["defense"]),
            "loss [95 %]": _estimate(loss["mean"], 1, "{:.2f}") if loss else "",
            "change [95 %]": _estimate(loss["difference"], 1, "{:+.3f}") if loss else "",
            "seconds": number(trial["seconds"]) if trial["seconds"] is not None else "",
            "tokens": _short(trial["tokens"]),
            "MB sent": "" if trial["bytes"] is None else number(trial["bytes"] / 1e6),
        }
        for trial in measured
        for loss in [trial["loss"]]
    ]
    numeric = ("loss [95 %]", "change [95 %]", "seconds", "tokens", "MB sent")
    return build_table(
        "What each defence would have cost",
        lines,
        ("defence", *numeric),
        numeric=numeric,
        notes=(
            "Loss in nats a token, of held-out documents as they are; where a defence answers by"
            " keys, under the right one. Seconds of a training with what a defence deploys, and its"
            " evaluation, on this machine; tokens trained on and megabytes sent by all clients.",
        ),
    )


def _missing(defenses: Row) -> Iterator[Table]:
    rows = tuple(
        (make_visible(trial["defense"]), make_visible(trial["reason"]))
        for trial in defenses["tried"]
        if trial["reason"]
    )
    if rows:
        yield Table(title="Defences that were not measured", columns=("defence", "why"), rows=rows)


def _estimate(estimate: Row | None, factor: int, form: str) -> str:
    if estimate is None:
        return NONE
    value, low, high = (form.format(factor * estimate[end]) for end in ("value", "low", "high"))
    return f"{value} [{low}, {high}]"


def _short(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value / 1e6:.3g} M" if value >= 1e6 else number(round(value))
