"""The files of documents that an audit reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit import corpus
from fedaudit.annotation import annotated
from fedaudit.files import sha256
from fedaudit.prompts import PromptTemplate
from fedaudit.records import Document

if TYPE_CHECKING:
    from fedaudit.audit.pipeline import Request


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


def read(path: Path, form: PromptTemplate, request: "Request") -> Inputs:
    """Return a file's documents; the detector annotates those that nobody has annotated."""
    options = request.options.get(request.detector)
    documents, by = annotated(list(corpus.read(path, form)), request.detector, options)
    return Inputs(path=path, documents=documents, annotation=by)


def unannotated(files: Sequence[Inputs]) -> list[str]:
    """Return a limit for each file whose PII somebody's detector had to find."""
    return [
        f"{file.path.name} was not annotated; PII in it was found by {file.annotation}"
        for file in files
        if file.annotation
    ]
