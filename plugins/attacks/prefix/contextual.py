"""Contextual prefixes (FedPII, section 4.2.1): what precedes my PII precedes yours too."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedaudit.api import AttackContext, Cost, Counts
from fedaudit.extraction.prefix_attack import PrefixAttack
from fedaudit.extraction.prefixes import PiiOccurrence, pii_occurrences


@dataclass(frozen=True, kw_only=True)
class Contextual(PrefixAttack):
    """Continue the tokens before every PII in the attacker's own documents."""

    name: ClassVar[str] = "contextual"
    paper: ClassVar[str] = "FedPII, arXiv:2506.06060, section 4.2.1 and table 1"

    context: int = 50
    """How many tokens before a PII make a prefix (lambda)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.context < 1:
            raise ValueError("context must be at least 1.")

    def cost(self, counts: Counts) -> Cost:
        """Return the cost of `samples` continuations for each PII string of the attacker's."""
        spans, estimated = counts.spans()
        continuations = spans * self.samples
        return Cost(continuations, continuations * self.new_tokens, estimated=estimated)

    def occurrences(self, context: AttackContext) -> Sequence[PiiOccurrence]:
        """Return P_c, as the multiset that it is."""
        return pii_occurrences(context.engine, context.attacker, self.context)
