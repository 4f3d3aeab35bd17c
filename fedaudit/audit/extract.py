"""An extraction audit: what `fedaudit extract` asks of the pipeline."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from fedaudit.audit import pipeline
from fedaudit.audit.fingerprint import run_id
from fedaudit.audit.pipeline import Audit, run

__all__ = ["Audit", "ExtractionRequest", "run", "run_id"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionRequest(pipeline.AuditRequest):
    """What `fedaudit extract` was asked to do."""

    command: ClassVar[str] = "extract"
    purpose: ClassVar[str] = "extraction"

    attacks: tuple[str, ...] = ("contextual",)
    prefixes: Path
    victim: Path | None = None
    held_out: Path | None = None

    @property
    def own(self) -> Path:
        """The attacker's own documents, or prompts."""
        return self.prefixes

    @property
    def others(self) -> Path | None:
        """The victim's documents, to score against."""
        return self.victim

    @property
    def unseen(self) -> Path | None:
        """Documents like the victim's that nobody trained on."""
        return self.held_out
