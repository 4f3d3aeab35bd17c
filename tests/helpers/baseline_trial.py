"""A trial whose adapters are numbers: what an update measures is what it holds."""

from pathlib import Path

import torch

from fedaudit.api.attribution import AttributionContext, RoundRecord
from fedaudit.api.watermark import Score
from fedaudit.config.registry import create


def score(z):
    return Score(z=z, p_value=0.5, n=1, hits=0, chance=0.5)


def vector(*values):
    """Return an update of two tensors."""
    half = len(values) // 2
    return {
        "a": torch.tensor(values[:half], dtype=torch.float64),
        "b": torch.tensor([values[half:]], dtype=torch.float64),
    }


def seen(number, updates):
    """Return a round of `updates` by client; a number stands for an update of one value."""
    return RoundRecord(
        round=number,
        start=Path(f"global-{number}"),
        participants=tuple(updates),
        updates=lambda client: updates[client],
    )


def hidden(number, participants):
    return RoundRecord(round=number, start=Path("g"), participants=participants)


def trial(rounds, *, measure=None, write=None, **given):
    return AttributionContext(
        engine=given.pop("engine", None),
        rounds=rounds,
        last=Path("last"),
        aggregator=create("aggregation", "fedavg"),
        marks=given.pop("marks", ()),
        measure=measure,
        write=write,
        **given,
    )


def flags(found):
    return {one.client: one.flagged for one in found.clients}
