"""A file of documents as an audit takes it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedaudit.files import sha256
from fedaudit.records import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """One file of documents, annotated, and what annotated it."""

    path: Path
    documents: Sequence[Document]
    annotation: str | None

    def row(self) -> dict[str, Any]:
        """Return the report's row for this file."""
        return {
            "path": str(self.path),
            "sha256": sha256(self.path),
            "records": len(self.documents),
            "annotation": self.annotation,
        }
