"""The decision: each client's scores of all rounds as one statistic, and who is flagged by it.

A client's null hypothesis is that it is innocent and that the others are as observed: its Z may
then be chance, and what its estimates hold of marked clients' updates.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, nextafter

from fedaudit.api.errors import UsageError
from fedaudit.attribution.decision.null_distribution import NullDistribution, Pair, chances_of
from fedaudit.attribution.scores import Scores, score_differences
from fedaudit.metrics.attribution import stouffer

ALPHA = 0.01
"""The chance that somebody innocent of a federation is flagged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientVerdict:
    """Whether one client is flagged by one mark, and why."""

    z: float
    chance: NullDistribution
    p_value: float
    """Of a Z as high for an innocent client."""
    level: float
    """What Holm holds the p-value against."""
    flagged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientDecision:
    """One client under one mark."""

    client: str
    mark: str
    scores: tuple[float, ...]
    """s of each round that it took part in."""
    rounds: tuple[int, ...]
    z: float
    needed: float
    """What Z must exceed for the client to be flagged."""
    spread: float
    """The standard deviation of Z by chance."""
    detectable: float
    """The mean Z that is flagged with 90 % probability where nobody else shows the mark."""
    nulls: int
    """The null marks that Z is held against; 0 where it is taken for standard normal."""
    p_value: float
    """Of a Z as high for an innocent client."""
    adjusted: float
    """The p-value after Holm, over all clients and marks."""
    published: bool
    """Whether the paper's rule, Z above the threshold, flags it."""
    flagged: bool
    running: tuple[float, ...]
    """Z after each of its rounds."""
    settled: int | None
    """The round after which one could have stopped at the stated error; None if in none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Every client that took part under every mark, and those that never did."""

    tests: tuple[ClientDecision, ...]
    absent: tuple[str, ...] = ()

    def of(self, client: str) -> ClientDecision | None:
        """Return the test that speaks most against a client."""
        own = [one for one in self.tests if one.client == client]
        return max(own, key=lambda one: (one.flagged, -one.p_value, one.z), default=None)

    @property
    def marks(self) -> dict[str, set[str]]:
        """The marks that each flagged client is flagged by."""
        found: dict[str, set[str]] = {}
        for one in self.tests:
            if one.flagged:
                found.setdefault(one.client, set()).add(one.mark)
        return found

    @property
    def flagged(self) -> dict[str, ClientDecision]:
        """The clients that are held to have trained on marked documents."""
        found = {one.client: self.of(one.client) for one in self.tests}
        return {who: one for who, one in found.items() if one and one.flagged}


def check_limits(threshold: float, alpha: float) -> None:
    """Raise UsageError for a threshold that is no number, or an error that is not in 0..0.5."""
    if not isfinite(threshold):
        raise UsageError(f"The threshold tau must be a finite number, not {threshold}.")
    if not 0 < alpha < 0.5:
        raise UsageError(f"The error alpha must lie between 0 and 0.5, not {alpha}.")


def verdicts(
    scores: Scores,
    *,
    threshold: float = stouffer.THRESHOLD,
    alpha: float = ALPHA,
    up_to: float = 1.0,
) -> dict[Pair, ClientVerdict]:
    """Return whom `decide` flags by which mark, without what a report says beside it.

    p-values above `up_to` (`alpha` at least) may be too low, but not down to it: that is faster,
    and flags the same.
    """
    check_limits(threshold, alpha)
    pairs = [(who, mark) for who in _present(scores) for mark in scores.marks]
    z = {
        pair: stouffer.stouffer_z(list(score_differences(scores, *pair).values())) for pair in pairs
    }
    chances = chances_of(scores, z, up_to=max(up_to, alpha))
    p = [chances[pair].p_value(z[pair]) for pair in pairs]
    return {
        pair: ClientVerdict(
            z=z[pair],
            chance=chances[pair],
            p_value=own,
            level=level,
            flagged=z[pair] > chances[pair].floor(threshold) and own <= level,
        )
        for pair, own, level in zip(pairs, p, stouffer.holm_levels(p, alpha), strict=True)
    }


def decide(
    scores: Scores, *, threshold: float = stouffer.THRESHOLD, alpha: float = ALPHA
) -> Decision:
    """Flag a client for a mark by Holm's adjusted p-value, at most `alpha`, and by Z.

    Z must exceed `threshold`, and as many of its standard deviations by chance. So someone innocent
    is flagged in a federation with a chance of `alpha` at most, whatever the number of clients and
    marks, as far as p-values are right. `alpha` is also the error for which a client's running Z is
    said to have settled, for all clients and marks together, however often one looks. Raises
    ValueError for scores that are not finite, UsageError for what `allowed` refuses.
    """
    found = verdicts(scores, threshold=threshold, alpha=alpha)
    adjusted = stouffer.holm([one.p_value for one in found.values()])
    tests = []
    for ((who, mark), one), holm in zip(found.items(), adjusted, strict=True):
        by_round, chance = score_differences(scores, who, mark), one.chance
        least = chance.least(one.level, threshold)
        tests.append(
            ClientDecision(
                client=who,
                mark=mark,
                scores=tuple(by_round.values()),
                rounds=tuple(by_round),
                z=one.z,
                needed=_needed(least, one.z, flagged=one.flagged),
                spread=chance.spread,
                detectable=chance.detectable(alpha / len(found), threshold),
                nulls=chance.marks,
                p_value=one.p_value,
                adjusted=holm,
                published=one.z > threshold,
                flagged=one.flagged,
                running=tuple(stouffer.running_z(list(by_round.values()))),
                settled=_settled(by_round, chance, alpha / len(found)),
            )
        )
    present = _present(scores)
    return Decision(
        tests=tuple(tests), absent=tuple(who for who in scores.clients if who not in present)
    )


def _present(scores: Scores) -> list[str]:
    """Return the clients that took part in any round."""
    return [who for who in scores.clients if any(who in one.clients for one in scores.rounds)]


def _needed(least: float, z: float, *, flagged: bool) -> float:
    """Return what Z must exceed, on the side of Z where p has it: `least` is found by search."""
    return min(least, nextafter(z, -inf)) if flagged else max(least, z)


def _settled(scores: Mapping[int, float], chance: NullDistribution, alpha: float) -> int | None:
    count = stouffer.stopping_round(chance.standard(list(scores.values())), alpha)
    return None if count is None else list(scores)[count - 1]


@dataclass(frozen=True, slots=True)
class Rates:
    """Counts where the truth is known: of marked clients, and of innocent ones."""

    caught: int
    guilty: int
    accused: int
    innocent: int


def rates(
    flagged: Mapping[str, Collection[str]], present: Sequence[str], truth: Mapping[str, str]
) -> Rates:
    """Return how many clients of each kind took part and were flagged; `truth` names their mark.

    `flagged` has the marks that each flagged client is flagged by; "" stands for any. A client
    that is flagged by somebody else's mark alone is not caught.
    """
    guilty = [who for who in present if truth.get(who)]
    innocent = [who for who in present if not truth.get(who)]
    return Rates(
        caught=sum(bool({truth[who], ""} & set(flagged.get(who, ()))) for who in guilty),
        guilty=len(guilty),
        accused=sum(who in flagged for who in innocent),
        innocent=len(innocent),
    )
