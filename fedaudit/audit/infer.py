"""An inference audit: what `fedaudit infer` asks of the pipeline."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from fedaudit.audit import pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceRequest(pipeline.AuditRequest):
    """What `fedaudit infer` was asked to do."""

    command: ClassVar[str] = "infer"
    purpose: ClassVar[str] = "inference"

    attacks: tuple[str, ...] = ("ranking",)
    data: Path

    @property
    def own(self) -> Path:
        """The documents in whose sentences PII is masked."""
        return self.data
