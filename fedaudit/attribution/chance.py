"""What a client's Z is by chance: that of marks that nobody has, over the same answers.

The paper takes an innocent client's scores for standard normal and independent. They are not where
models say much the same in every round: a key that happens to suit what a client says suits it each
time. And a score is a difference of two z, with up to twice the variance of one. The same answers
under null marks repeat themselves and differ alike, so they show how far Z then goes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fedaudit.attribution.scores import Scores
from fedaudit.metrics import stouffer


@dataclass(frozen=True, slots=True)
class Chance:
    """The differences of scores under every null mark, (rounds, null marks); empty for none.

    Without any Z is taken for standard normal, as in the paper.
    """

    null: Sequence[Sequence[float]]

    @property
    def marks(self) -> int:
        """How many null marks there are."""
        return len(self.null[0]) if self.null else 0

    @property
    def spread(self) -> float:
        """The standard deviation of Z by chance, taken for 1 where it is less."""
        return max(1.0, stouffer.spread(self.null)) if self.null else 1.0

    def p_value(self, z: float) -> float:
        """Return how often chance reaches a Z, or a bound on that."""
        if not self.null:
            return stouffer.p_value(z)
        return stouffer.null_p_value(z, self.spread, self.marks)

    def least(self, threshold: float) -> float:
        """Return what Z must exceed: so many standard deviations, and no less than `threshold`."""
        return max(threshold, threshold * self.spread)

    def standard(self, scores: Sequence[float]) -> list[float]:
        """Return Z after each round, as what a standard normal number reaches as rarely."""
        running = stouffer.running(scores)
        if not self.null:
            return running
        upto = (Chance(self.null[: count + 1]) for count in range(len(running)))
        return [stouffer.normal(one.p_value(z)) for one, z in zip(upto, running, strict=True)]


def chance(scores: Scores, client: str, mark: str) -> Chance:
    """Return what Z of a client and a mark is by chance."""
    tests = [
        (one.clients[client][mark].null, one.reference[mark].null)
        for one in scores.rounds
        if client in one.clients
    ]
    null = [[a - b for a, b in zip(*pair, strict=True)] for pair in tests]
    return Chance(null if null[0] else ())
