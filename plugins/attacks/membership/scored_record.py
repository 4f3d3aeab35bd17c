"""A record, what models say of its tokens, and the scores that follow from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fedaudit.api import Document, TokenStatistics
from fedaudit.metrics.privacy import membership_scores as scores

COUNTERFACTUAL = "counterfactual"
"""The name of the score that compares with the model without the members' client."""
NEIGHBOURHOOD = "neighbourhood"
"""The name of the score that compares with texts near the record."""


@dataclass(frozen=True, slots=True)
class ScoredRecord:
    """A record, and what the tuned model and its base say of its tokens."""

    document: Document
    text: str
    """What is read of its text."""
    tuned: TokenStatistics
    base: Sequence[float] | None
    without: TokenStatistics | None = None
    """What the model says that was trained without the members' client."""
    rounds: Mapping[int, Sequence[float]] = field(default_factory=dict)
    """What the global models of earlier rounds say of its tokens."""
    references: Sequence[Sequence[float]] = ()
    """What the models of reference federations say of its tokens, in their order."""
    neighbours: Sequence[Sequence[float]] = ()
    """What the tuned model says of the tokens of texts near this one."""
    ids: Sequence[int] = ()
    """Its tokens that are read."""
    length: int = 0
    """How many tokens it has."""

    def memorization(self) -> float:
        """Return how many more of its tokens are the likeliest ones than without the client.

        A share, from -1 to 1; Zhang et al. 2023 (arXiv:2112.12938), equation 2 with a client left
        out. Raises ValueError without such a model.
        """
        if self.without is None:
            raise ValueError("There is no model without the client.")
        right = [
            sum(statistics.first) / len(statistics) for statistics in (self.tuned, self.without)
        ]
        return right[0] - right[1]

    def gains(self) -> list[float]:
        """Return how much less its loss is than the base's, by round; the audited one is last.

        Raises ValueError without a base.
        """
        if self.base is None:
            raise ValueError("There is no base to compare with.")
        every = [*(self.rounds[n] for n in sorted(self.rounds)), self.tuned.log_probability]
        return [scores.reference_ratio(logprobs, self.base) for logprobs in every]

    def scores(self) -> dict[str, float | None]:
        """Return every score by its name, higher for trained records; None where it has no value.

        That is without a base, or where a server reports only the probability of the actual tokens.
        """
        logprobs, base = self.tuned.log_probability, self.base
        return {
            "loss": scores.loss(logprobs),
            "zlib": scores.zlib_ratio(logprobs, self.text),
            "reference": None if base is None else scores.reference_ratio(logprobs, base),
            "min_k": scores.min_k(logprobs),
            "min_k++": scores.min_k_plus_plus(self.tuned) if self.tuned.mean else None,
            "error_zone": None
            if base is None or not self.tuned.first
            else scores.error_zone(logprobs, base, self.tuned.first),
            **(
                {}
                if self.without is None
                else {
                    COUNTERFACTUAL: scores.reference_ratio(logprobs, self.without.log_probability)
                }
            ),
            **(
                {NEIGHBOURHOOD: scores.neighbourhood(logprobs, self.neighbours)}
                if self.neighbours
                else {}
            ),
        }
