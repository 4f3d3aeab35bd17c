"""Annotating documents that no one has annotated, and saying with what."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fedaudit.api.records import Document, PiiSpan
from fedaudit.config import registry
from fedaudit.pii.spans import resolve

_log = logging.getLogger(__name__)

_BORDER = "\n\n-\n\n"
"""What no name goes beyond, nor a list of names."""


def annotate(
    documents: Sequence[Document], detector: str, options: Mapping[str, Any] | None = None
) -> tuple[list[Document], str | None]:
    """Return `documents` with the detector's spans where they had none, and what found them.

    Documents that are annotated, with nothing even, and ready-made prompts stay as they are. The
    second value is None when there was nothing to annotate.
    """
    bare = [d for d in documents if d.pii is None and not d.is_prompt]
    if not bare:
        return list(documents), None
    _log.info("%s annotates %d documents", detector, len(bare))
    finder = registry.create("detector", detector, options)
    detections = iter(finder.detect([text for d in bare for text in _readings(d)]))
    spans = {d.id: _united(d, [next(detections) for _ in _readings(d)]) for d in bare}
    return [d.annotated(spans[d.id]) if d.id in spans else d for d in documents], finder.describe()


def _joint(document: Document) -> int:
    """Return where the answer follows the prompt with nothing between, as TRL has it; 0 nowhere."""
    glued = document.output and document.text == document.instruction + document.output
    return len(document.instruction) if glued else 0


def _readings(document: Document) -> list[str]:
    """Return a text as it is, for what goes before a name, and with a border before its answer."""
    text, joint = document.text, _joint(document)
    return [text, f"{text[:joint]}{_BORDER}{text[joint:]}"] if joint else [text]


def _united(document: Document, detections: Sequence[tuple[PiiSpan, ...]]) -> tuple[PiiSpan, ...]:
    """Return the spans of all readings, without those that join the prompt's end to the answer."""
    joint, shift = _joint(document), len(_BORDER)
    if not joint:
        return detections[0]
    read, bordered = detections
    spans = [span for span in read if span.end <= joint or joint <= span.start]
    spans += [span for span in bordered if span.end <= joint]
    spans += [
        PiiSpan(span.start - shift, span.end - shift, span.label)
        for span in bordered
        if joint + shift <= span.start
    ]
    return resolve((1.0, span) for span in spans)
