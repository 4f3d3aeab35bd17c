"""FedMIT: FewFedPIT without isolation and without mixing, for comparison (section 4.3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedaudit.api import Document, TrainedClient, Update

from .self_generation.defense import SelfGeneration

MIXED = "mixed"


@dataclass(frozen=True, kw_only=True)
class FedMit(SelfGeneration):
    """Train on private and self-made examples together, and send the result as it is."""

    name: ClassVar[str] = "fed_mit"
    paper: ClassVar[str] = "FewFedPIT, arXiv:2403.06131, section 4.3"
    auxiliary_adapters = (MIXED,)
    """The adapter that is sent; the one that was trained on private data alone only selects."""

    def auxiliary_data(self, turn: TrainedClient) -> Mapping[str, Sequence[Document]]:
        """Return the client's documents and the examples that were made up and kept."""
        return {MIXED: [*turn.documents, *self.synthetic(turn)]}

    def upload(self, start: Update, trained: Update, private: Mapping[str, Update]) -> Update:
        """Return the adapter that was trained on both."""
        return private[MIXED]
