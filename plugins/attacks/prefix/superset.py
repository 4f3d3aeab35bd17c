"""All sub-prefixes (FedPII, section 4.2.1): every end of what precedes my PII precedes it too."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedaudit.api import AttackContext
from fedaudit.extraction.prefix_attack import PrefixAttack
from fedaudit.extraction.prefixes import PiiOccurrence

from .subprefixes import attacker_subprefixes


@dataclass(frozen=True, kw_only=True)
class Superset(PrefixAttack):
    """Continue every distinct ending of the texts before PII in the attacker's own documents."""

    name: ClassVar[str] = "superset"
    paper: ClassVar[str] = "FedPII, arXiv:2506.06060, section 4.2.1 and table 1"
    distinct: ClassVar[bool] = True

    context: int = 50
    """How long an ending may be, in tokens (lambda)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.context < 1:
            raise ValueError("context must be at least 1.")

    def occurrences(self, context: AttackContext) -> Sequence[PiiOccurrence]:
        """Return Set(SUP), most frequent first."""
        return attacker_subprefixes(context, self.context)
