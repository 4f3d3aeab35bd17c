"""What one trained federation came to, and the file that keeps it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.estimates import Estimate
from fedaudit.config.options import build
from fedaudit.system.files import atomic_text, read_json


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakShare:
    """What one attack drew out: a share of n targets, with its 95 % interval."""

    share: Estimate
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DefenseOutcome:
    """A federation under one defence with one seed; `reason` says why there is none."""

    seed: int
    leaks: Mapping[str, LeakShare] = field(default_factory=dict)
    """By attack."""
    losses: tuple[float, ...] = ()
    """The loss of each held-out document in nats per token, if no defence answers for the model."""
    loss: Estimate | None = None
    """The mean of the held-out losses."""
    seconds: float | None = None
    """The time of training, deployment and evaluation; None if they were interrupted."""
    tokens: int = 0
    """The tokens that all clients together trained on."""
    bytes: int | None = None
    """The bytes that all clients together sent and received."""
    flops: float | None = None
    reason: str = ""


def read_outcome(path: Path, digest: str) -> DefenseOutcome | None:
    """Return what a file keeps of the same federation and attack; None where it keeps none."""
    try:
        table = read_json(path, "")
        if table.pop("digest") != digest:
            return None
        return build(DefenseOutcome, table, str(path))
    except (InputError, KeyError, AttributeError, UsageError):
        return None  # it is measured anew


def write_outcome(outcome: DefenseOutcome, path: Path, digest: str) -> None:
    """Write an outcome to a file, atomically."""
    table = {**asdict(outcome), "digest": digest}
    atomic_text(path, json.dumps(table, indent=2, sort_keys=True) + "\n")
