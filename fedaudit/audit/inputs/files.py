"""The files of documents that an audit reads."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fedaudit.api.records import Measurement
from fedaudit.audit.inputs.input_file import InputFile
from fedaudit.config import registry
from fedaudit.data import corpus
from fedaudit.data.annotation import annotate

if TYPE_CHECKING:
    from fedaudit.audit.request import AuditRequest


def annotated(file: InputFile, request: "AuditRequest") -> InputFile:
    """Return a file's documents; the detector annotates those without annotations."""
    options = request.options.get(request.detector)
    documents, annotator = annotate(file.documents, request.detector, options)
    return replace(file, documents=documents, annotation=annotator)


def label_rows(
    files: Sequence[InputFile], request: "AuditRequest", measurements: Sequence[Measurement]
) -> list[Measurement]:
    """Return a row with the labels that the detector can give, if it annotated what was tried.

    These are in the victim's file, or in any file without a victim. There is no row if no strings
    were searched for, or if the records had annotations.
    """
    tried = [f for f in files if request.victim_path is None or f.path == request.victim_path]
    searched = any(row.metric in ("coverage", "extraction_recall") for row in measurements)
    if not searched or not any(file.annotation for file in tried):
        return []
    options = request.options.get(request.detector)
    texts = [document.text for file in tried for document in file.documents]
    labels = sorted(registry.create("detector", request.detector, options).labels(texts))
    return [
        Measurement(
            kind="extraction",
            plugin=request.detector,
            metric="annotation_labels",
            value=float(len(labels)),
            scope={"labels": labels},
        )
    ]


def reading_caveats(files: Sequence[InputFile]) -> list[str]:
    """Return caveats about reading the files: PII found by a detector, and unread fields."""
    template = "{} was not annotated; PII in it was found by {}"
    limits = [template.format(file.path.name, file.annotation) for file in files if file.annotation]
    given = [file for file in files if not file.annotation]
    return [
        *limits,
        *(limit for file in given for limit in corpus.cut_caveat(file.path, file.documents)),
        *(limit for file in files for limit in corpus.unread_caveat(file.path, file.unread)),
    ]
