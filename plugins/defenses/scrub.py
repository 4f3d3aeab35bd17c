"""Scrubbing: no client trains on personal data that anybody found in its documents.

FedPII (section 5.4) writes as many asterisks as the PII has characters, SecureGate (section 3) one
[MASK]. What nobody annotated or detected stays, which is why scrubbing is not enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from fedaudit.api import Defense, Document, FinishedFederation, Result, UpTo
from fedaudit.pii import masking

LIMIT = (
    "Pseudonyms of a simulation follow from the seed in its configuration: whoever knows it can "
    "test whether one stands for somebody they think of. Real clients need a secret key."
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

    It is in the configuration, so that a run can be repeated and resumed, and is no secret: whoever
    knows it can test whom a pseudonym stands for.
    """

    def prepare(self, documents: Sequence[Document]) -> list[Document]:
        """Return the documents with every annotated PII masked, annotated as having none."""
        written = masking.substitution(self.style, documents, key=f"seed {self.seed}")
        return [masking.mask_document(document, written) for document in documents]

    def deploy(self, finished: FinishedFederation) -> Result:
        """Return what pseudonyms that follow from a seed do not protect from."""
        return Result(limits=(LIMIT,) if self.style == "pseudonym" else ())
