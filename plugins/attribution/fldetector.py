"""FLDetector (Zhang et al., 2022): a client whose updates do not follow from the rounds before.

It looks for clients that manipulate, not for what they trained on: somebody who trains honestly on
watermarked documents sends updates as consistent as anybody's. FedAttr finds none of them by it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedaudit.api import AttributionContext, AttributionResult, Attributor, ClientScore

from . import gap, plaintext, prediction


@dataclass(frozen=True, kw_only=True)
class FLDetector(Attributor):
    """Predict every client's update from earlier rounds; suspect the clients predicted worst."""

    name: ClassVar[str] = "fldetector"
    paper: ClassVar[str] = "Zhang et al. 2022, arXiv:2207.09209"

    history: int = 5
    """Pairs of rounds that the curvature is estimated from."""
    window: int = 10
    """How many of the last rounds a client's score is averaged over."""
    clusters: int = 7
    """The most groups that the gap statistic tries."""
    references: int = 10
    """Uniform draws that the gap statistic compares with."""

    def __post_init__(self) -> None:
        if min(self.history, self.window, self.references) < 1 or self.clusters < 2:
            raise ValueError(
                "history, window and references must be at least 1, clusters at least 2."
            )

    def attribute(self, context: AttributionContext) -> AttributionResult:
        """Flag the higher of two clusters of scores, if the scores are of more than one group."""
        rounds = [
            (s.participants, read)
            for s, read in plaintext.readable_rounds(context.rounds, self.name)
        ]
        progress = context.progress("predicting clients' updates")
        scores = mean_scores(prediction.distances(rounds, self.history, progress), self.window)
        flagged = self._flag_clients(scores, context.seed)
        everybody = plaintext.clients(context.rounds)
        return AttributionResult(
            clients=tuple(ClientScore(client=c, flagged=c in flagged) for c in everybody),
            limits=(plaintext.limit(self.name), *self._limits(everybody, scores)),
        )

    def _flag_clients(self, scores: Mapping[str, float], seed: int) -> frozenset[str]:
        names = sorted(scores)
        values = [scores[name] for name in names]
        count = gap.groups(values, most=self.clusters, references=self.references, seed=seed)
        if count == 1:
            return frozenset()
        higher = gap.upper_half(values, seed)
        return frozenset(name for name, high in zip(names, higher, strict=True) if high)

    def _limits(self, everybody: Sequence[str], scores: Mapping[str, float]) -> list[str]:
        """Return what it could not judge."""
        caveats = []
        if silent := len(everybody) - len(scores):
            caveats.append(
                f"{self.name}: no update of {silent} of {len(everybody)} clients could be "
                "predicted, because that needs an earlier update of the client and two earlier "
                "rounds of anybody; they are not flagged."
            )
        if len(scores) < 3:
            caveats.append(
                f"{self.name}: {len(scores)} scores are too few for groups among them (three at "
                "least); nobody is flagged."
            )
        return caveats


def mean_scores(distances: Sequence[Mapping[str, float]], window: int) -> dict[str, float]:
    """Return each client's mean over the last `window` rounds, of those it has a distance in.

    A round's distances are divided by their mean, so that rounds weigh alike whoever took part.
    """
    ratios: dict[str, list[float]] = {}
    for far in distances[-window:]:
        mean = sum(far[client] for client in sorted(far)) / max(1, len(far))
        for client, value in far.items():
            ratios.setdefault(client, []).append(value / mean if mean else 1.0)
    return {client: sum(values) / len(values) for client, values in ratios.items()}
