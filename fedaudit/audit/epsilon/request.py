"""The settings of `fedaudit dp audit`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from fedaudit.audit.request import AuditRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class EpsilonRequest(AuditRequest):
    """The settings of one `fedaudit dp audit`."""

    kind: ClassVar[str] = "dp"
    command: ClassVar[str] = "dp"
    purpose: ClassVar[str] = "coins tossed anew"
    input_kind: ClassVar[str] = "the JSON file that `fedaudit dp make` wrote"
    minimums: ClassVar[Mapping[str, int]] = {"batch_size": 0}

    attacks: tuple[str, ...] = ()
    coins: Path
    epsilon: float | None = None
    """The epsilon claimed at the coin file's delta; None takes it from the federation's report."""
    noiseless: Path | None = None
    """The same federation trained without noise, as a positive control."""
    commitment: str = ""
    """The commitment to the coin file that was published before training; empty if unknown."""

    def __post_init__(self) -> None:
        # Without `super()`: slots make another class of this one.
        AuditRequest.__post_init__(self)
        if self.epsilon is not None and not self.epsilon >= 0:
            raise ValueError("--epsilon must be 0 or more.")

    @property
    def input_path(self) -> Path:
        """The coin file."""
        return self.coins
