"""Annotating documents that no one has annotated, and saying with what."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fedaudit.api.records import Document
from fedaudit.config import registry

_log = logging.getLogger(__name__)


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
    detections = iter(finder.detect([d.text for d in bare]))
    spans = {d.id: next(detections) for d in bare}
    return [d.annotated(spans[d.id]) if d.id in spans else d for d in documents], finder.describe()
