"""FewFedPIT: synthetic examples, and private and public parameters that are mixed to be sent.

In a round that begins with the global adapter w, a client

1. makes up examples with base + w, from a few of its own as demonstrations, and filters them
2. trains w on its own data, which gives its private adapter v
3. keeps the examples that base + v finds to follow their instructions best
4. trains w on those, which gives its public adapter
5. sends alpha * v + (1 - alpha) * public

With alpha 1 this is plain federated tuning, to the byte. docs/choices.md has what the paper
leaves open.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from fedaudit.api import Document, FinishedFederation, Result, TrainedClient, Update

from .self_generation.defense import SelfGeneration

PUBLIC = "public"


@dataclass(frozen=True, kw_only=True)
class FewFedPit(SelfGeneration):
    """Train separate adapters on private and on self-made examples, and send a mixture of both."""

    name: ClassVar[str] = "few_fed_pit"
    paper: ClassVar[str] = "FewFedPIT, arXiv:2403.06131, sections 3.2 to 3.4 and algorithm 1"

    alpha: float = 0.5
    """The share of the private adapter in what is sent; 1 is plain federated tuning."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.alpha <= 1:
            raise ValueError("alpha must be from 0 to 1.")

    @property
    def auxiliary_adapters(self) -> tuple[str, ...]:
        """The public adapter; none where it would have no part in what is sent."""
        return () if self.alpha == 1 else (PUBLIC,)

    def auxiliary_data(self, turn: TrainedClient) -> Mapping[str, Sequence[Document]]:
        """Return the examples that were made up and kept."""
        return {PUBLIC: self.synthetic(turn)}

    def upload(self, start: Update, trained: Update, private: Mapping[str, Update]) -> Update:
        """Return the mixture of the private adapter, which is `trained`, and the public one.

        A tensor is mixed in float32 and A and B apart, as the server's mean is. At the ends of
        alpha the other adapter is not read: 0 * x is not 0 of every x.
        """
        if self.alpha in (0, 1):
            return trained if self.alpha else private[PUBLIC]
        public = private[PUBLIC]
        return {
            name: (self.alpha * tensor.float() + (1 - self.alpha) * public[name].float()).to(
                tensor.dtype
            )
            for name, tensor in trained.items()
        }

    def deploy(self, finished: FinishedFederation) -> Result:
        """Return what the filters dropped, or that nothing was made up."""
        if not self.auxiliary_adapters:
            return Result(limits=(f"{self.name}: alpha is 1, so no example was made up.",))
        result = super().deploy(finished)
        caveats = (
            f"{self.name}: clients send {self.alpha:g} of the adapter that was trained on their "
            f"own data, and {1 - self.alpha:g} of the one that was trained on self-made examples, "
            "which were made from a few of their own and may repeat parts of them.",
        )
        return replace(result, limits=(*caveats, *result.limits))
