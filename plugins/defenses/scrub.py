"""Scrubbing: no client trains on personal data that anybody found in its documents.

FedPII (section 5.4) writes as many asterisks as the PII has characters, SecureGate (section 3) one
[MASK]. What nobody annotated or detected stays, which is why scrubbing is not enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from fedaudit.defense import Defense
from fedaudit.records import Document, PiiSpan


@dataclass(frozen=True, kw_only=True)
class Scrub(Defense):
    """Train on documents whose PII is masked."""

    name: ClassVar[str] = "scrub"
    paper: ClassVar[str] = "FedPII, arXiv:2506.06060, section 5.4"

    needs_annotation: ClassVar[bool] = True

    style: Literal["mask", "asterisks", "label"] = "mask"
    """[MASK], asterisks of the PII's length, or the kind of PII in angle brackets."""

    def prepare(self, documents: Sequence[Document]) -> list[Document]:
        """Return the documents with every annotated PII masked, annotated as having none."""
        return [replace(d, text=self.masked(d.text, d.pii or ()), pii=()) for d in documents]

    def masked(self, text: str, spans: Sequence[PiiSpan]) -> str:
        """Return `text` with each of `spans` (sorted, without overlap) masked."""
        parts, position = [], 0
        for span in spans:
            parts += [text[position : span.start], self.mask(span)]
            position = span.end
        return "".join([*parts, text[position:]])

    def mask(self, span: PiiSpan) -> str:
        """Return what stands in a span's place."""
        if self.style == "asterisks":
            return "*" * (span.end - span.start)
        return "[MASK]" if self.style == "mask" else f"<{span.label}>"
