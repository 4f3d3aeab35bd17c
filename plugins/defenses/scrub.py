"""Scrubbing: no client trains on personal data that anybody found in its documents.

FedPII (section 5.4) writes as many asterisks as the PII has characters, SecureGate (section 3) one
[MASK]. What no one annotated or detected stays, which is why scrubbing is not enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from fedaudit.api import (
    Defense,
    Document,
    FinishedFederation,
    PiiDetector,
    Result,
    UpTo,
    unknown_name_error,
)
from fedaudit.pii import masking

LIMIT = (
    "Pseudonyms of a simulation follow from the seed in its configuration: anyone who knows it can "
    "test whether one stands for someone they think of. Real clients need a secret key."
)


@dataclass(frozen=True, kw_only=True)
class Scrub(Defense):
    """Train on documents whose PII is masked."""

    name: ClassVar[str] = "scrub"
    paper: ClassVar[str] = "FedPII, arXiv:2506.06060, section 5.4"

    needs_annotation: ClassVar[bool] = True

    style: masking.Style = "mask"
    """PII becomes [MASK], asterisks of its length, its kind in angle brackets, or a pseudonym."""
    seed: Annotated[int, UpTo(2**63)] = 0
    """The seed of pseudonyms: clients with the same seed write the same one for the same PII.

    It is in the configuration, so that a run can be repeated and resumed, and is not secret:
    whoever knows it can test whom a pseudonym stands for.
    """
    detector: str = ""
    """Mask what this built-in detector finds, in place of what is annotated: its misses stay."""

    def __post_init__(self) -> None:
        if self.detector:
            _detector(self.detector)

    def prepare(self, documents: Sequence[Document]) -> list[Document]:
        """Return the documents with every PII masked, annotated as having none."""
        if self.detector:
            found = _detector(self.detector).detect([document.text for document in documents])
            documents = [replace(d, pii=spans) for d, spans in zip(documents, found, strict=True)]
        written = masking.substitution(self.style, documents, key=f"seed {self.seed}")
        return [masking.mask_document(document, written) for document in documents]

    def deploy(self, finished: FinishedFederation) -> Result:
        """Return what pseudonyms that follow from a seed do not protect from."""
        return Result(limits=(LIMIT,) if self.style == "pseudonym" else ())


def _detector(name: str) -> PiiDetector:
    """Return a built-in detector with its defaults; raises UsageError for an unknown name."""
    from ..detectors import fedaudit_detectors

    detectors = {made.name: made for made in fedaudit_detectors()}
    if name not in detectors:
        raise unknown_name_error("detector", name, detectors)
    return detectors[name]()
