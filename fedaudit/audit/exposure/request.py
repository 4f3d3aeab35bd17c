"""What `fedaudit canary measure` is asked to do."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from fedaudit.audit.request import AuditRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureRequest(AuditRequest):
    """What `fedaudit canary measure` was asked to do."""

    kind: ClassVar[str] = "canary"
    command: ClassVar[str] = "canary"
    purpose: ClassVar[str] = "references"
    minimums: ClassVar[Mapping[str, int]] = {"batch_size": 0, "space_limit": 0, "references": 1}

    attacks: tuple[str, ...] = ()
    canaries: Path
    space_limit: int = 10_000
    """A space of so many secrets at most is scored as a whole."""
    references: int = 1_000
    """Secrets drawn at random from a larger one, for each sentence."""
    commitment: str = ""
    """What was published of the file before training; empty where nobody says."""

    @property
    def input_path(self) -> Path:
        """The file of canaries."""
        return self.canaries
