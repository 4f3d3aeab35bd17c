"""Frequency-prioritised prefixes (FedPII, section 4.2.2): ask first what precedes most PII."""

from dataclasses import dataclass, replace
from typing import ClassVar

from fedaudit.api import AttackContext, InputError
from fedaudit.extraction import query_plan
from fedaudit.extraction.query_plan import QueryPlan

from .subprefixes import SubPrefixes, attacker_subprefixes
from .superset import Superset


@dataclass(frozen=True, kw_only=True)
class Frequency(Superset):
    """Continue the endings of texts before PII that the attacker's documents repeat most."""

    name: ClassVar[str] = "frequency"
    paper: ClassVar[str] = "FedPII, arXiv:2506.06060, section 4.2.2 and figures 4 to 6"

    budget: int | None = None
    """The most prefixes to ask (B); if not set, all that are frequent enough."""
    minimum: int = 2
    """How often a prefix must occur (sigma)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.budget is not None and self.budget < 1:
            raise ValueError("budget must be at least 1.")
        if self.minimum < 1:
            raise ValueError("minimum must be at least 1.")

    def occurrences(self, context: AttackContext) -> SubPrefixes:
        """Return the first `budget` prefixes of P_f, most frequent first."""
        return self._select_first(attacker_subprefixes(context, self.context))

    def plan(self, context: AttackContext) -> QueryPlan:
        """Return what to ask, and what became of the budget."""
        subprefixes = attacker_subprefixes(context, self.context)
        chosen = self._select_first(subprefixes)
        return replace(
            query_plan.plan_in_order(context, chosen), notes=self._notes(subprefixes, chosen)
        )

    def _select_first(self, subprefixes: SubPrefixes) -> SubPrefixes:
        """Return the first sub-prefixes; raises InputError where none is frequent enough."""
        enough = subprefixes.reaching(self.minimum)
        if len(subprefixes) and not enough:
            raise InputError(
                f"No sub-prefix has a count of {self.minimum:,} or more: of {len(subprefixes):,}, "
                f"the most frequent has {subprefixes.counts[0]:,}; see --set {self.name}.minimum."
            )
        return subprefixes.first(enough if self.budget is None else min(self.budget, enough))

    def _notes(self, subprefixes: SubPrefixes, chosen: SubPrefixes) -> tuple[str, ...]:
        if not chosen:
            return ()
        enough, last = subprefixes.reaching(self.minimum), subprefixes.counts[len(chosen) - 1]
        eligible = f"{enough:,} sub-prefixes with a count of at least {self.minimum:,}"
        if self.budget is not None and self.budget > enough:
            note = f"the budget of {self.budget:,} prefixes is larger than the set; all {eligible}"
            return (f"{self.name}: {note} were asked.",)
        return (
            f"{self.name}: {len(chosen):,} of {eligible} were asked, down to a count of {last:,}.",
        )
