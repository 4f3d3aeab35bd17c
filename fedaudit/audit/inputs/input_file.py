"""A file of documents, as an audit has read it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedaudit.api.records import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A file of annotated documents, and the detector that annotated it, if any."""

    path: Path
    documents: Sequence[Document]
    annotation: str | None = None
    sha256: str
    unread: Mapping[str, int] = field(default_factory=dict)
    """For each field that fedaudit does not read, the number of records that have it."""

    def row(self) -> dict[str, Any]:
        """Return the report's row for this file."""
        return {
            "path": str(self.path),
            "sha256": self.sha256,
            "records": len(self.documents),
            "annotation": self.annotation,
        }
