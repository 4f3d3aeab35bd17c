"""The settings of `fedaudit canary measure`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from fedaudit.audit.request import AuditRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureRequest(AuditRequest):
    """The settings of one `fedaudit canary measure`."""

    kind: ClassVar[str] = "canary"
    command: ClassVar[str] = "canary"
    purpose: ClassVar[str] = "references"
    input_kind: ClassVar[str] = "the JSON file that `fedaudit canary make` wrote"
    minimums: ClassVar[Mapping[str, int]] = {"batch_size": 0, "space_limit": 0, "references": 1}

    attacks: tuple[str, ...] = ()
    canaries: Path
    space_limit: int = 10_000
    """The size up to which all secrets of the space are scored."""
    references: int = 1_000
    """The number of secrets drawn at random from a larger space, for each sentence."""
    commitment: str = ""
    """The commitment to the canary file that was published before training; empty if unknown."""

    @property
    def input_path(self) -> Path:
        """The canary file."""
        return self.canaries
