"""Tests of whether a model gives away more than its base and guessing explain.

Every p value here is one-sided (more than explained), exact unless stated otherwise, and never 0.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np
import numpy.typing as npt

from fedaudit.api.estimates import Estimate, wilson
from fedaudit.metrics import tilted_deals
from fedaudit.metrics.tilted_deals import Urn, sum_scores

PERMUTATIONS = 9_999
"""How many random permutations are drawn if there is no formula."""

LARGEST = 3000
"""The most values of a stratum that are permuted one by one; smaller ones count as 0."""

WIDEST = 200_000
"""The most possible numbers of hits to sum over exactly; above, the normal law is used."""


@dataclass(frozen=True, slots=True)
class Stratum:
    """Targets of one kind that were found, and strings of that kind that no one has."""

    hits: int
    n: int
    control_hits: int
    control_n: int

    def __post_init__(self) -> None:
        if not (0 <= self.hits <= self.n and 0 <= self.control_hits <= self.control_n):
            raise ValueError(f"{self} has more hits than strings.")


def binomial_tail(hits: int, n: int, probability: float) -> float:
    """Return P(Binomial(n, probability) >= hits).

    It is `scipy.stats.binom.sf(hits - 1, n, probability)`, whose module takes a second to import.
    """
    from scipy.special import betainc

    if hits <= 0 or hits > n:
        return float(hits <= 0)
    return float(betainc(hits, n - hits + 1, probability))


def mcnemar(gained: float, lost: float) -> float:
    """Return the p value of McNemar's exact test: P(Binomial(gained + lost, 1/2) >= gained).

    `gained` strings came out of the tuned model only, `lost` of its base only. Expected counts
    (of computed probabilities) are rounded against the finding. Raises ValueError below 0.
    """
    if gained < 0 or lost < 0:
        raise ValueError("Counts are at least 0.")
    gained_count, lost_count = int(np.floor(gained + 1e-9)), int(np.ceil(lost - 1e-9))
    return binomial_tail(gained_count, gained_count + lost_count, 0.5)


def poisson_binomial_p_value(chances: Sequence[float], hits: int) -> float:
    """Return P(at least `hits` successes) of independent trials with these chances of success.

    The number of successes is Poisson binomial (Poisson, 1837). Raises ValueError for a chance that
    is not from 0 to 1.
    """
    if not all(0 <= chance <= 1 for chance in chances):
        raise ValueError("Chances are from 0 to 1.")
    pmf = np.ones(1)
    for chance in chances:
        pmf = np.convolve(pmf, [1 - chance, chance])
    return min(1.0, max(float(pmf[max(0, hits) :].sum()), float(np.finfo(float).tiny)))


def stratified_p_value(strata: Sequence[Stratum]) -> float:
    """Return P(at least as many hits among the targets), given the hits of each stratum.

    Under the null hypothesis, whether a string comes out does not depend on whether it is a target.
    The hits of a stratum then fall on its targets and controls as a hypergeometric draw,
    independently of other strata (Fisher's exact test, stratified: Mantel and Haenszel's
    hypothesis, Cox 1970). A stratum without controls carries no information and is left out. The
    p value is 1 if no stratum is left.
    """
    informative = [s for s in strata if s.n and s.control_n and s.hits + s.control_hits]
    observed = sum(stratum.hits for stratum in informative)
    laws = [_Law.from_stratum(stratum) for stratum in informative]
    if sum(law.last - law.first for law in laws) > WIDEST:
        return _normal_tail(laws, observed)
    start, pmf = 0, np.ones(1)
    for law in laws:
        start, pmf = start + law.first, np.convolve(pmf, law.pmf())
    tail = float(pmf[max(0, observed - start) :].sum())
    return min(1.0, max(tail, float(np.finfo(float).tiny)))


@dataclass(frozen=True, slots=True)
class _Law:
    """The hypergeometric law of a stratum's hits, from `first` to `last` (inclusive).

    Values left out lie over 40 standard deviations plus 1,000 hits from the mean, where
    probabilities are below the least float.
    """

    stratum: Stratum
    mean: float
    variance: float
    first: int
    last: int

    @classmethod
    def from_stratum(cls, stratum: Stratum) -> Self:
        total_hits, population = stratum.hits + stratum.control_hits, stratum.n + stratum.control_n
        share = stratum.n / population
        mean = total_hits * share
        variance = mean * (1 - share) * (population - total_hits) / max(1, population - 1)
        reach = int(40 * math.sqrt(variance)) + 1000
        first = max(0, total_hits - stratum.control_n, int(mean) - reach)
        return cls(stratum, mean, variance, first, min(total_hits, stratum.n, int(mean) + reach))

    def pmf(self) -> npt.NDArray[np.float64]:
        from scipy.special import betaln

        # A quotient of binomials; the time of scipy's own function grows with the counts.
        stratum = self.stratum
        total_hits = stratum.hits + stratum.control_hits
        hits = np.arange(self.first, self.last + 1, dtype=float)
        missed = total_hits - hits
        logs = -betaln(hits + 1, stratum.n - hits + 1)
        logs -= betaln(missed + 1, stratum.control_n - missed + 1)
        law = np.exp(logs - logs.max())
        return np.asarray(law / law.sum())


def _normal_tail(laws: Sequence[_Law], observed: int) -> float:
    """Return P(sum >= observed) by the normal law, which is accurate enough for so many hits.

    No audit gives such counts, but a report that is read may state them.
    """
    from scipy.special import ndtr

    spread = math.sqrt(sum(law.variance for law in laws))
    z = (observed - 0.5 - sum(law.mean for law in laws)) / spread
    return max(float(ndtr(-z)), float(np.finfo(float).tiny))


def permutation_p_value(
    values: Sequence[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]],
    *,
    seed: int,
    draws: int = PERMUTATIONS,
) -> float:
    """Return the p value of the targets' sum under permutations within each stratum.

    `values` are (targets', controls') of each stratum, at least 0: probabilities of coming out.
    For values of 0 and 1 it estimates `stratified_p_value`; it is valid for any number of draws and
    has no floor (`tilted_deals`). Of a stratum with very many values, the LARGEST count.
    """
    urns, observed = [], []
    for targets, controls in values:
        pooled = np.concatenate([targets, controls])
        if not (len(targets) and len(controls) and pooled.any()):
            continue
        dealt = np.arange(len(pooled)) < len(targets)
        # Sorted, so that the order does not matter; of ties at the end, controls are kept.
        order = np.lexsort((dealt, -pooled))[: min(LARGEST, np.count_nonzero(pooled))]
        urns.append(Urn(pooled[order], len(targets), len(pooled) - len(order)))
        observed.append(dealt[order][None, :])
    if not any(deal.any() for deal in observed):
        return 1.0
    unit = max(float(urn.scores.max()) for urn in urns) * 1e-9
    return tilted_deals.p_value(
        urns,
        observed,
        lambda deals: np.round(sum_scores(urns, deals) / unit),
        seed=seed,
        draws=draws,
    )


def guess_rate(hits: int, n: int) -> float:
    """Return the p value of one string that came out where `hits` of `n` controls did.

    If the string were one more control, all ranks among them would be equally likely, which gives
    (hits + 1) / (n + 1).
    """
    if not 0 <= hits <= n:
        raise ValueError(f"{hits} of {n} is not a rate.")
    return (hits + 1) / (n + 1)


def upper_bound(hits: int, n: int, level: float = 0.05) -> float:
    """Return the one-sided upper bound of a rate (Clopper and Pearson 1934)."""
    from scipy.special import betaincinv

    if not 0 <= hits <= n or n == 0:
        raise ValueError(f"{hits} of {n} is not a rate.")
    return 1.0 if hits == n else float(betaincinv(hits + 1, n - hits, 1 - level))


@lru_cache(maxsize=1024)
def hits_needed(n: int, control_hits: int, control_n: int, level: float) -> int | None:
    """Return how many of `n` targets must come out for p <= `level`; None if all are not enough."""

    def told(hits: int) -> bool:
        return stratified_p_value([Stratum(hits, n, control_hits, control_n)]) <= level

    # The more hits, the smaller p.
    hits = bisect_left(range(1, n + 1), True, key=told) + 1
    return hits if hits <= n else None


def needed_against(lost: int, level: float) -> int:
    """Return how many strings must come out of the tuned model only for McNemar's p <= `level`.

    `lost` strings came out of its base only.
    """
    # 2 * lost + 1100 are enough at any level that a float can tell from 0.
    most = 2 * lost + 1100
    return bisect_left(range(most), True, key=lambda gained: mcnemar(gained, lost) <= level)


def needed_beyond(n: int, chance: float, level: float) -> int:
    """Return the least m with P(Binomial(n, chance) >= m) <= `level`; n + 1 if there is none."""
    return bisect_left(range(n + 1), True, key=lambda m: binomial_tail(m, n, chance) <= level)


def detectable(needed: int | None, n: int, power: float = 0.9, answers: int | None = None) -> float:
    """Return the rate of leaks at which `needed` hits among `n` are seen with probability `power`.

    It is the rate r with P(Binomial(n, r) >= needed) = power; 1 if not even n hits are enough. With
    a number of `answers`, each of which gives at best one of the r n leaked strings at random, a
    leaked string is seen with probability 1 - (1 - 1 / (r n))^answers.
    """
    from scipy.special import betaincinv

    if needed is None or needed > n:
        return 1.0
    seen = float(betaincinv(needed, n - needed + 1, power))
    if answers is None:
        return seen

    def shown(rate: float) -> float:
        return rate * -math.expm1(answers * math.log1p(-1 / max(rate * n, 1.0 + 1e-9)))

    if shown(1.0) <= seen:
        return 1.0
    low, high = seen, 1.0
    while low < (middle := (low + high) / 2) < high:  # importing a root finder takes half a second
        low, high = (middle, high) if shown(middle) < seen else (low, middle)
    return high


def false_discovery_rates(p_values: Mapping[str, float], tests: int) -> dict[str, float]:
    """Return each p value adjusted for all `tests`, of which the p values not given are 1.

    Of the results with adjusted values of at most q, a share of q is false on average (Benjamini
    and Hochberg 1995).
    """
    from scipy.stats import false_discovery_control

    if not p_values:
        return {}
    every = [*p_values.values(), *[1.0] * (tests - len(p_values))]
    adjusted = false_discovery_control(every)[: len(p_values)]
    return dict(zip(p_values, map(float, adjusted), strict=True))


def leak_needed(needed: int, n: int, reach: float, power: float = 0.9) -> int | None:
    """Return how many of n strings must leak for `needed` of them to come out with `power`.

    Each leaked string comes out with the probability `reach`. None if not even n are enough.
    """

    def shown(count: int) -> bool:
        return binomial_tail(needed, count, reach) >= power

    count = bisect_left(range(n + 1), True, key=shown)
    return count if count <= n else None


def clustered_share(
    values: Sequence[float], groups: Sequence[str], *, seed: int, draws: int = 2000
) -> tuple[float, float]:
    """Return the 95 % interval of the mean of `values`, by resampling whole groups.

    Groups are drawn with replacement, and the mean is taken over all their values (the cluster
    bootstrap of a ratio: Davison and Hinkley 1997, section 3.8). The order does not matter. Raises
    ValueError if there are no values.
    """
    if not values or len(values) != len(groups):
        raise ValueError("A share needs values, each with a group.")
    group_index = {name: index for index, name in enumerate(sorted(set(groups)))}
    sums = np.zeros((len(group_index), 2))
    for value, group in zip(values, groups, strict=True):
        sums[group_index[group]] += value, 1.0
    # Sorted, so that the names of the groups do not matter either.
    sums = sums[np.lexsort((sums[:, 1], sums[:, 0]))]
    picks = np.random.default_rng(seed).integers(len(sums), size=(draws, len(sums)))
    totals = sums[picks].sum(axis=1)
    low, high = np.quantile(totals[:, 0] / totals[:, 1], (0.025, 0.975))
    return float(low), float(high)


def grouped_share(values: Sequence[float], groups: Sequence[str]) -> Estimate:
    """Return the mean of `values` from 0 to 1 with its 95 % interval, for whole groups drawn.

    It is Wilson's interval of as many independent values as have the variance of this mean, the
    linearised one of a ratio over groups, but no less than that of ungrouped values; with the
    quantile of t for one degree of freedom less than there are groups (Korn and Graubard 1998,
    Survey Methodology 24:193; Dean and Pagano 2015, 3:484). Where all groups have one share, which
    says nothing of how alike they are, each counts as one value. The order does not matter. Raises
    ValueError if there are no values.
    """
    from scipy.special import stdtrit

    if not values or len(values) != len(groups):
        raise ValueError("A share needs values, each with a group.")
    n, share = len(values), math.fsum(values) / len(values)
    sums: dict[str, list[float]] = {}
    for value, group in zip(values, groups, strict=True):
        sums.setdefault(group, []).append(value - share)
    count = len(sums)
    excess = [math.fsum(rest) for rest in sums.values()]
    between = math.fsum(e * e for e in excess) / n**2 * count / max(1, count - 1)
    if max(map(abs, excess)) < 1e-9 * n:
        over_groups = wilson(share * count, count)
        return Estimate(share, over_groups.low, over_groups.high)
    variance = max(between, math.fsum((value - share) ** 2 for value in values) / n**2)
    independent = share * (1 - share) / variance
    found = wilson(share * independent, independent, float(stdtrit(count - 1, 0.975)))
    return Estimate(share, found.low, found.high)
