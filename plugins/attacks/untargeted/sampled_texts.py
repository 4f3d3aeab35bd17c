"""What attacks that draw texts and look for personal data in them have in common."""

from abc import ABC
from dataclasses import dataclass

from fedaudit.api import Ability, Attack, SamplingParams, decoding_abilities


@dataclass(frozen=True, kw_only=True)
class SampledTexts(Attack, ABC):
    """An attack on the texts that models write: how they are drawn, and what is looked for."""

    temperature: float = 1.0
    """The sampling temperature: logits are divided by it; 0 is greedy."""
    top_k: int = 40
    """How many of the likeliest tokens are sampled from; 0 is all."""
    top_p: float = 1.0
    """Sample from the likeliest tokens that together have this probability; 1 is all."""
    labels: tuple[str, ...] = ()
    """Only these kinds of PII, in the data and in the texts; if not set, all."""

    def __post_init__(self) -> None:
        self._decoding()  # refuses what is no distribution

    @property
    def needs(self) -> frozenset[Ability]:
        """Texts that are drawn."""
        return decoding_abilities(self._decoding())

    def _decoding(self) -> SamplingParams:
        return SamplingParams(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p)
