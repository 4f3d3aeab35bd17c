"""What `fedaudit dp audit` is asked to do."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from fedaudit.audit.request import AuditRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class EpsilonRequest(AuditRequest):
    """What `fedaudit dp audit` was asked to do."""

    kind: ClassVar[str] = "dp"
    command: ClassVar[str] = "dp"
    purpose: ClassVar[str] = "coins tossed anew"
    minimums: ClassVar[Mapping[str, int]] = {"batch_size": 0}

    attacks: tuple[str, ...] = ()
    coins: Path
    epsilon: float | None = None
    """What is claimed at the file's delta; None: what the federation's report says."""
    noiseless: Path | None = None
    """The same federation trained without noise: the positive control."""
    commitment: str = ""
    """What was published of the file before training; empty where nobody says."""

    def __post_init__(self) -> None:
        # Without `super()`: slots make another class of this one.
        AuditRequest.__post_init__(self)
        if self.epsilon is not None and not self.epsilon >= 0:
            raise ValueError("--epsilon must be 0 or more.")

    @property
    def input_path(self) -> Path:
        """The file of coins."""
        return self.coins
