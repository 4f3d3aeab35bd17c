"""Permutation tests whose p values have no floor: deals drawn from tilted laws and weighted back.

A deal says which items of each urn go to the first side. All deals are equally likely under the
null hypothesis. Drawing them so resolves no p value below 1 / draws, however certain a leak is.
Here a deal is drawn with a probability proportional to exp(tilt x sum of the scores dealt), the
tilt being one of several, and counts with w = uniform / drawn probability. With draws Z_1 to Z_n
and the observed deal Z_0,

    p = (sum over i = 0..n of w(Z_i) [T(Z_i) >= T(Z_0)]) / (n + 1)

is a valid p value for every n (Harrison 2012): under the null hypothesis, E f(Z_0, .., Z_n) is
E[w(Z_0) f] for Z_0 drawn like the others; then all Z_i are exchangeable, and E[w(Z_0) [p <= a]] is
the expected mean of w over those i whose weights from the top add up to at most a (n + 1), which
is at most a. The tilts depend on the pooled scores alone, not on the observed deal.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Deals = list[npt.NDArray[np.bool_]]
"""For each urn, which of its items are dealt: shape (draws, items)."""

TILTS = (0.0, 1.5, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0)
"""Tilts, by how many standard deviations they shift a nearly normal sum."""

SHARES = (0.5, *[0.5 / (len(TILTS) - 1)] * (len(TILTS) - 1))
"""The share of draws with each tilt: half are not tilted, so no weight is above 2."""


@dataclass(frozen=True)
class Urn:
    """Items with scores, further items of score 0, and the number dealt to the first side."""

    scores: Array
    chosen: int
    zeros: int = 0

    @property
    def size(self) -> int:
        """Return the number of items."""
        return len(self.scores) + self.zeros

    @property
    def variance(self) -> float:
        """Return the variance of the sum dealt, all deals being equally likely."""
        mean = self.scores.sum() / self.size
        square = ((self.scores - mean) ** 2).sum() + self.zeros * mean**2
        share = self.chosen / self.size
        return float(share * (1 - share) * square * self.size / max(1, self.size - 1))


@dataclass(frozen=True)
class _TiltedUrn:
    """Deals A of one urn with probability proportional to exp(tilt x sum of scores in A).

    It is the law of independent coins, item i falling on "dealt" with expit(tilt x score + shift),
    given that `chosen` of them do.
    """

    urn: Urn
    tilt: float

    @cached_property
    def _shift(self) -> float:
        """Return the shift with which `chosen` items are dealt on average."""
        from scipy.optimize import brentq
        from scipy.special import expit

        urn, scaled = self.urn, self.tilt * self.urn.scores
        reach = float(np.abs(scaled).max(initial=0.0)) + 2 * np.log(urn.size + 1) + 5
        return float(
            brentq(
                lambda shift: expit(scaled + shift).sum() + urn.zeros * expit(shift) - urn.chosen,
                -reach,
                reach,
            )
        )

    @cached_property
    def _coins(self) -> Array:
        from scipy.special import expit

        return np.asarray(expit(self.tilt * self.urn.scores + self._shift))

    @cached_property
    def _table(self) -> Array:
        """Return P(c of item i and those after it are dealt), shape (items + 1, chosen + 1)."""
        from scipy.special import expit
        from scipy.stats import binom

        urn, coins = self.urn, self._coins
        table = np.empty((len(coins) + 1, urn.chosen + 1))
        table[-1] = binom.pmf(np.arange(urn.chosen + 1), urn.zeros, expit(self._shift))
        for i in range(len(coins) - 1, -1, -1):
            table[i] = (1 - coins[i]) * table[i + 1]
            table[i, 1:] += coins[i] * table[i + 1, :-1]
        return table

    @cached_property
    def log_mean(self) -> float:
        """Return ln E exp(tilt x sum), all deals being equally likely."""
        from scipy.special import gammaln, log_expit

        urn = self.urn
        tails = log_expit(-self.tilt * urn.scores - self._shift).sum()
        tails += urn.zeros * log_expit(-self._shift)
        ways = gammaln(urn.size + 1) - gammaln(urn.chosen + 1) - gammaln(urn.size - urn.chosen + 1)
        shifted = urn.chosen * self._shift
        return float(np.log(self._table[0, urn.chosen]) - tails - shifted - ways)

    def draw(self, draws: int, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
        """Return random deals, item by item given how many are left to deal."""
        coins, table = self._coins, self._table
        dealt = np.zeros((len(coins), draws), dtype=np.bool_)
        left = np.full(draws, self.urn.chosen)
        for i, coin in enumerate(coins):
            share = np.zeros(self.urn.chosen + 1)
            share[1:] = coin * table[i + 1, :-1]
            dealt[i] = rng.random(draws) * table[i][left] < share[left]
            left -= dealt[i]
        return dealt.T


def p_value(
    urns: Sequence[Urn],
    observed: Deals,
    statistic: Callable[[Deals], Array],
    *,
    seed: int,
    draws: int,
) -> float:
    """Return P(statistic >= the observed one), all deals of the urns being equally likely.

    Args:
        urns: From each, some items are dealt but not all. Deals are tilted towards large sums of
            their scores: if the statistic does not rise with the sum, p is valid but noisy.
        observed: The observed deal, as a single draw.
        statistic: Returns a value for each draw. What should be a tie must be exactly equal.
        seed: Seed of the draws.
        draws: The number of draws.
    """
    from scipy.special import logsumexp

    spread = math.sqrt(sum(urn.variance for urn in urns))
    if not spread:
        return 1.0
    tilts = np.array(TILTS) / spread
    laws = [[_TiltedUrn(urn, float(tilt)) for urn in urns] for tilt in tilts]
    log_means = np.array([sum(law.log_mean for law in row) for row in laws])

    def weights(deals: Deals) -> Array:
        logs = np.outer(sum_scores(urns, deals), tilts) - log_means
        return np.asarray(np.exp(-logsumexp(logs, axis=1, b=SHARES)))

    least, total = statistic(observed)[0], float(weights(observed)[0])
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(draws, SHARES)
    for row, count in zip(laws, counts, strict=True):
        deals = [law.draw(int(count), rng) for law in row]
        total += float(weights(deals)[statistic(deals) >= least].sum())
    return min(1.0, max(total / (draws + 1), float(np.finfo(float).tiny)))


def sum_scores(urns: Sequence[Urn], deals: Deals) -> Array:
    """Return the sum of the scores dealt, of all urns together, for each draw."""
    return np.asarray(sum(deal @ urn.scores for urn, deal in zip(urns, deals, strict=True)))
