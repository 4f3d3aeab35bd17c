"""Ratios of two measurements: overheads, and what is left without the base's own."""

from collections.abc import Sequence
from dataclasses import replace

from fedaudit.api.records import Measurement

GATING, ANSWERING = "gating", "adapter"
"""The stages of a gated request: the gate chooses an adapter, which then answers."""
BEYOND_BASE = "beyond_base"


def training_overheads(rows: Sequence[Measurement], training: float) -> list[Measurement]:
    """Return each step's seconds as a share of the `training` seconds of its federation.

    Returns nothing if the federation existed already (0 seconds) or the rows have it already.
    """
    if not training or any(row.metric == "overhead" for row in rows):
        return []
    return [
        replace(row, metric="overhead", value=row.value / training)
        for row in rows
        if row.metric == "seconds" and "step" in row.scope and row.value is not None
    ]


def gating_overheads(rows: Sequence[Measurement]) -> list[Measurement]:
    """Return each client's seconds of a gating pass as a share of the answer's.

    Both times are of single requests, one after the other in one process, so other load on the
    machine affects their ratio less than either time.
    """
    seconds = {
        (row.scope.get("client"), row.scope.get("stage")): row
        for row in rows
        if row.metric == "seconds" and row.value
    }
    return [
        replace(
            row,
            metric="overhead",
            value=(row.value or 0.0) / answer.value,
            scope={"client": client, "stage": stage},
        )
        for (client, stage), row in seconds.items()
        if stage == GATING and (answer := seconds.get((client, ANSWERING))) and answer.value
    ]


def beyond_base_rows(rows: Sequence[Measurement]) -> list[Measurement]:
    r"""Return which share of what the tuned model gives the base does not give, too.

    A row for each coverage of a tuned model, over the targets that it covers: F\B of F (FedPII,
    table 5), with Wilson's interval. F\B is a part of F, so their two intervals say little of
    their ratio. Nothing was covered: no number.
    """
    without_base = {
        _scope_key(row): row
        for row in rows
        if row.metric == "coverage" and row.scope.get("source") == "tuned-not-base"
    }
    found = []
    for row in rows:
        if row.metric != "coverage" or row.hits is None or "budget" in row.scope:
            continue
        if row.scope.get("source") == "tuned":
            left = without_base.get(_scope_key(row))
            if left is not None and left.hits is not None:
                found.append(_share(row, left.hits, row.hits))
    return found


def _share(row: Measurement, hits: int, n: int) -> Measurement:
    scope = {key: value for key, value in row.scope.items() if key != "source"}
    if not n:
        return Measurement(
            kind=row.kind, plugin=row.plugin, metric=BEYOND_BASE, value=None, scope=scope,
            reason="the tuned model gave none of the targets",
        )  # fmt: skip
    return Measurement.rate(
        hits, n, kind=row.kind, plugin=row.plugin, metric=BEYOND_BASE, scope=scope
    )


def _scope_key(row: Measurement) -> tuple[object, ...]:
    scope = sorted((key, str(value)) for key, value in row.scope.items() if key != "source")
    return row.kind, row.plugin, *scope
