"""Overheads: the time of a step as a share of what it comes on top of."""

from collections.abc import Sequence
from dataclasses import replace

from fedaudit.api.records import Measurement

GATING, ANSWERING = "gating", "adapter"
"""The stages of a gated request: the gate chooses an adapter, which then answers."""


def training_overheads(rows: Sequence[Measurement], training: float) -> list[Measurement]:
    """Return each step's seconds as a share of the `training` seconds of its federation.

    Nothing where the federation was there before (0), or where the rows say it themselves.
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

    Both are of single requests, one after the other in one process: what else the machine does
    changes their ratio less than either.
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
