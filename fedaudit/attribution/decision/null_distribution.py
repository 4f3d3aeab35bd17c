"""What an innocent client's Z is by chance, and what it may hold of marked clients' updates.

The paper takes an innocent client's scores for standard normal and independent. They are not where
models say much the same in every round: a key that happens to suit what a client says suits it each
time. And a score is a difference of two z, with up to twice the variance of one. The same answers
under null marks repeat themselves and differ alike, so they show how far Z then goes. What comes of
others' marked documents no null mark shows: see `metrics.contamination`.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from fedaudit.attribution.scores import RoundScores, Scores, score_differences
from fedaudit.metrics.attribution import stouffer

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from fedaudit.metrics.attribution.contamination import Law, Mixture, TestResponse

Pair = tuple[str, str]
"""A client and a mark."""


@dataclass(frozen=True)
class NullDistribution:
    """The differences of scores under every null mark, (rounds, null marks); empty for none.

    Without any, Z by chance is taken for standard normal, as in the paper.
    """

    null: "Sequence[Sequence[float]] | npt.NDArray[np.float64]"
    laws: "Sequence[Law]" = ()
    """What Z may take from other clients: each law is tried, and the least sure one counts."""

    @property
    def marks(self) -> int:
        """How many null marks there are."""
        return len(self.null[0]) if len(self.null) else 0

    @cached_property
    def spread(self) -> float:
        """The standard deviation of Z by chance, taken for 1 where it is less."""
        return max(1.0, stouffer.null_spread(self.null)) if len(self.null) else 1.0

    def p_value(self, z: float) -> float:
        """Return how often an innocent client's Z is as high, or a bound on that."""
        if self.laws:
            return max(law.tail(z / self.spread, self.marks) for law in self.laws)
        if len(self.null):
            return stouffer.null_p_value(z, self.spread, self.marks)
        return stouffer.p_value(z)

    def least(self, level: float, threshold: float) -> float:
        """Return what Z must exceed for a p-value of `level`, and at least: see `floor`."""
        low = self.floor(threshold)
        if self.p_value(low) <= level:
            return low
        high = low + self.spread
        while self.p_value(high) > level:
            high += 2 * (high - low)
        return _crossing(self.p_value, low, high, level)

    def detectable(self, level: float, threshold: float, power: float = 0.9) -> float:
        """Return the mean Z that exceeds what it must with that probability, by chance alone."""
        return replace(self, laws=()).least(
            level, threshold
        ) + self.spread * stouffer.normal_quantile(1 - power)

    def floor(self, threshold: float) -> float:
        """Return so many standard deviations by chance, and no less than `threshold`."""
        return max(threshold, threshold * self.spread)

    def standard(self, scores: Sequence[float]) -> list[float]:
        """Return Z after each round, as what a standard normal number reaches as rarely.

        By chance alone: what comes from other clients' marked documents is not considered.
        """
        running = stouffer.running_z(scores)
        if not len(self.null):
            return running
        upto = (NullDistribution(self.null[: count + 1]) for count in range(len(running)))
        return [
            stouffer.normal_quantile(one.p_value(z)) for one, z in zip(upto, running, strict=True)
        ]


def _crossing(p_value: Callable[[float], float], low: float, high: float, level: float) -> float:
    """Return where a p-value that falls from `low` to `high` is `level`."""
    from scipy.optimize import brentq

    return float(brentq(lambda z: math.log(p_value(z) / level), low, high, xtol=1e-6))


def null_distribution(scores: Scores, client: str, mark: str) -> NullDistribution:
    """Return what Z of a client and a mark is by chance alone."""
    return _alone(scores, [(client, mark)])[client, mark]


def _alone(scores: Scores, pairs: Iterable[Pair]) -> dict[Pair, NullDistribution]:
    """Return what Z of each pair is by chance alone."""
    import numpy as np

    before = {
        mark: np.array([one.reference[mark].null for one in scores.rounds], dtype=np.float64)
        for mark in scores.marks
    }
    found = {}
    for who, mark in pairs:
        own = [at for at, one in enumerate(scores.rounds) if who in one.clients]
        null = np.array([scores.rounds[at].clients[who][mark].null for at in own], dtype=np.float64)
        found[who, mark] = NullDistribution(null - before[mark][own] if null.size else ())
    return found


def chances_of(
    scores: Scores, z: Mapping[Pair, float], *, up_to: float = 1.0
) -> dict[Pair, NullDistribution]:
    """Return what Z is for an innocent client, the others as observed.

    Of pairs whose p-value is above `up_to` by chance alone, or with what others add by one law, the
    rest is not worked out: it only makes p-values greater.
    """
    from fedaudit.metrics.attribution.contamination import LAWS, QUICK

    found = _alone(scores, z)
    shown = _shown(scores, z, found)
    for answers in (QUICK, LAWS) if up_to < 1 else (LAWS,):
        for who in dict.fromkeys(who for who, _ in z):
            own = [pair for pair in z if pair[0] == who and found[pair].p_value(z[pair]) <= up_to]
            spreads = [found[pair].spread for pair in own]
            laws = _laws(scores, who, [shown[mark] for _, mark in own], spreads, answers)
            for pair, by in zip(own, laws, strict=True):
                found[pair] = replace(found[pair], laws=by)
    return found


def _laws(
    scores: Scores,
    client: str,
    shown: Sequence[Mapping[tuple[int, str], float]],
    spreads: Sequence[float],
    answers: "Sequence[TestResponse]",
) -> "list[tuple[Law, ...]]":
    """Return the laws of what a client's Z takes from others, under each of the marks."""
    if not shown:
        return []
    from fedaudit.metrics.attribution import contamination

    own = [(one, other_participants(one, client)) for one in scores.rounds if client in one.clients]
    return contamination.laws_of(
        [coefficient_mixture(one, client, names, scores.weights) for one, names in own],
        [[[s[one.round, who] for who in names] for s in shown] for one, names in own],
        spreads,
        answers,
    )


def _shown(
    scores: Scores, z: Mapping[Pair, float], chances: Mapping[Pair, NullDistribution]
) -> dict[str, dict[tuple[int, str], float]]:
    """Return by mark, round and client how strongly the client shows the mark, beyond chance."""
    from fedaudit.metrics.attribution import contamination

    found: dict[str, dict[tuple[int, str], float]] = {mark: {} for _, mark in z}
    for (who, mark), own in z.items():
        share = contamination.shown_share(own, chances[who, mark].spread)
        for number, value in score_differences(scores, who, mark).items():
            found[mark][number, who] = share * max(0.0, value)
    return found


def other_participants(one: RoundScores, client: str) -> list[str]:
    """Return the other participants of a round, in order."""
    return sorted(who for who in one.clients if who != client)


def coefficient_mixture(
    one: RoundScores, client: str, names: Sequence[str], weights: Mapping[str, float]
) -> "Mixture":
    """Return what is known of how much a client's estimate holds of the others, by `names`."""
    from fedaudit.metrics.attribution.contamination import Mixture

    own = weights.get(client, 1.0)
    return Mixture(
        weights=tuple(weights.get(who, 1.0) / own for who in names),
        strength=one.strength.get(client, 1.0),
        others=one.others,
        pairs=one.pairs,
        limit=one.limit,
        rule=one.rule(len(names) + 1),
    )
