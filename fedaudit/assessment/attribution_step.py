"""The attribution of marked documents, as one step of an audit."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedaudit.api.plugin import Result
from fedaudit.attribution import pipeline
from fedaudit.attribution.request import ResolvedRequest
from fedaudit.audit.inputs.input_file import InputFile

if TYPE_CHECKING:
    from fedaudit.audit.pipeline import Watcher


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributedFile(InputFile):
    """A file that an attribution read, as its own report names it."""

    said: dict[str, Any]

    def row(self) -> dict[str, Any]:
        """Return the report's row for this file."""
        return self.said


def attribute(resolved: ResolvedRequest, watch: "Watcher") -> tuple[Result, list[AttributedFile]]:
    """Return what the attribution found, and the rows of the files that it read.

    The attribution is recomputed in every run, since the cache keeps none of its results.
    """
    report = pipeline.run(resolved, watch)
    result = Result(
        measurements=tuple(report.measurements),
        findings=tuple(report.findings),
        limits=tuple(report.limits),
    )
    files = [
        AttributedFile(path=resolved.path, documents=(), sha256=row["sha256"], said=dict(row))
        for row in report.data
    ]
    return result, files
