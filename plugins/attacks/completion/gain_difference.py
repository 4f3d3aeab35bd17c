"""Difference in differences: whether some records gained more than others like them.

Records are compared within their stratum (a task) and belong to clusters (the case files that they
are of), whose records share people and words: clusters, not records, are what is independent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
import numpy.typing as npt

from fedaudit.metrics import tilted_deals

Array = npt.NDArray[np.float64]

RESAMPLES = 9_999
"""So many permutations are drawn where there are more, from laws under which large differences are
common (`tilted_deals`): p has no floor."""

SMALLEST = 1e-7
"""Standard errors below it are rounding; gains are of the order of 1."""


@dataclass(frozen=True, slots=True, order=True)
class RecordGain:
    """What one record gained, what it is compared with, and which records depend on it."""

    cluster: str
    stratum: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """By how much treated records gained more than others of their strata, and how sure that is."""

    value: float
    low: float
    high: float
    """The 95 % interval: bootstrap over clusters."""
    error: float
    """The cluster-robust standard error of `value`."""
    p: float
    """One-sided: the share of permutations of the clusters that show as much."""
    least_p: float
    """The smallest that `p` could be with so many clusters."""
    n: tuple[int, int]
    """Treated records and others, in strata that have both."""
    clusters: tuple[int, int]
    spread: float
    """Clusters of equal size that would scatter a leak by whole clusters as much as the treated."""


@dataclass(frozen=True, slots=True)
class _Cells:
    """Number and sum of the gains, cluster by stratum, (clusters, strata); treated ones first."""

    count: Array
    total: Array
    treated: int


def difference(
    treated: Sequence[RecordGain], controls: Sequence[RecordGain], *, seed: int, margin: float = 0.0
) -> Difference | None:
    """Return by how much `treated` gained more than `controls`; None where no stratum has both.

    The value is the coefficient of being treated in a regression on it and the strata: the mean
    over strata of the differences of the two means, weighted by n1 n2 / (n1 + n2). It is divided by
    its cluster-robust error and set against the same of clusters dealt at random, whole, to the two
    sides (a studentized permutation test, Chung & Romano 2013): exact where clusters are
    exchangeable, and nearly so where only the mean gains agree. `margin` is by how much treated
    records may gain more without it meaning anything: p is of gaining more than that. A cluster's
    name on both sides means two clusters. Order does not matter.
    """
    strata = {g.stratum for g in treated} & {g.stratum for g in controls}
    sides = [sorted(g for g in side if g.stratum in strata) for side in (treated, controls)]
    if not strata:
        return None
    cells = _cells(sides, sorted(strata))
    size = len(cells.count)
    is_treated = (np.arange(size) < cells.treated)[:, None]
    margins = _Cells(cells.count, cells.total - margin * cells.count * is_treated, cells.treated)
    labels = is_treated.T.astype(np.float64)
    values, errors = _estimates(cells, labels)
    low, high = _interval(cells, seed)
    sizes = cells.count[: cells.treated].sum(axis=1)
    return Difference(
        value=float(values[0]),
        low=min(low, float(values[0])),
        high=max(high, float(values[0])),
        error=float(errors[0]),
        p=_p_value(margins, seed),
        least_p=1 / comb(size, cells.treated),
        n=(len(sides[0]), len(sides[1])),
        clusters=(cells.treated, size - cells.treated),
        spread=float(sizes.sum() ** 2 / (sizes**2).sum()),
    )


def detectable(
    estimate: Difference, *, level: float, power: float, margin: float = 0.0
) -> float | None:
    """Return the smallest leak that the test would have seen with `power`; None where none is.

    A leak of size d is here that the share d of the treated clusters gains 1 more, whole: it adds
    d (1 - d) / `spread` to the variance of the difference. d solves d = c x standard error, where
    c adds Student's quantiles of 1 - level and of power, with one degree of freedom less than the
    side with fewer clusters has; `margin` comes on top of it.
    """
    from scipy.stats import t

    free = min(estimate.clusters) - 1
    if free < 1 or estimate.least_p > level:
        return None
    square = float(t.ppf(1 - level, free) + t.ppf(power, free)) ** 2
    share = square / estimate.spread
    root = np.sqrt(share**2 + 4 * (1 + share) * square * estimate.error**2)
    return margin + float((share + root) / (2 * (1 + share)))


def _cells(sides: Sequence[Sequence[RecordGain]], strata: Sequence[str]) -> _Cells:
    """Return the gains' cells; a side's clusters are ordered by what they hold, not by names.

    Names of clusters must not change what is drawn.
    """
    column = {name: number for number, name in enumerate(strata)}
    rows: list[tuple[tuple[float, ...], ...]] = []
    for side in sides:
        groups: dict[str, tuple[list[float], list[float]]] = {}
        for gain in side:  # sorted: so are the gains of each cluster
            count, total = groups.setdefault(
                gain.cluster, ([0.0] * len(column), [0.0] * len(column))
            )
            count[column[gain.stratum]] += 1
            total[column[gain.stratum]] += gain.value
        rows += sorted((tuple(count), tuple(total)) for count, total in groups.values())
    table = np.array(rows, dtype=np.float64)
    treated = len({g.cluster for g in sides[0]})
    return _Cells(table[:, 0], table[:, 1], treated)


def _estimates(cells: _Cells, labels: Array) -> tuple[Array, Array]:
    """Return (value, error) for each row of `labels`, (draws, clusters): 1 is treated.

    The regression on treatment and strata, treatment less its mean in the stratum (Frisch, Waugh,
    Lovell); the error is the sandwich over clusters.
    """
    count, total = cells.count, cells.total
    sizes, sums = count.sum(axis=0), total.sum(axis=0)
    rate = labels @ count / sizes
    weight = (sizes * rate * (1 - rate)).sum(axis=1)
    valid = weight > 0
    moved = (labels @ total - rate * sums).sum(axis=1)
    value = np.divide(moved, weight, out=np.zeros_like(moved), where=valid)
    residuals = _residuals(cells)
    # Of each cluster: treatment less the stratum's rate, times what the regression leaves there.
    score = labels * residuals.sum(axis=1) - rate @ residuals.T
    square = labels * (count.sum(axis=1) - 2 * (rate @ count.T)) + rate**2 @ count.T
    spread = np.sqrt(((score - value[:, None] * square) ** 2).sum(axis=1))
    error = np.divide(spread, weight, out=np.zeros_like(spread), where=valid)
    return value, error


def _p_value(cells: _Cells, seed: int) -> float:
    """Return the share of deals that reach the statistic; scipy refuses a side of one cluster."""
    size = len(cells.count)
    dealt = (np.arange(size) < cells.treated)[None, :]

    def statistic(deals: tilted_deals.Deals) -> Array:
        chunks = np.array_split(deals[0], max(1, len(deals[0]) // 500))
        return np.concatenate([_statistic(cells, chunk) for chunk in chunks])

    if comb(size, cells.treated) < RESAMPLES:
        return float((statistic([_every_deal(size, cells.treated)]) >= statistic([dealt])).mean())
    urn = tilted_deals.Urn(_residuals(cells).sum(axis=1), cells.treated)
    return tilted_deals.p_value([urn], [dealt], statistic, seed=seed, draws=RESAMPLES)


def _every_deal(size: int, treated: int) -> npt.NDArray[np.bool_]:
    """Return every way to choose the treated clusters."""
    chosen = np.array(list(combinations(range(size), treated)))
    deals = np.zeros((len(chosen), size), dtype=np.bool_)
    np.put_along_axis(deals, chosen, values=True, axis=1)
    return deals


def _residuals(cells: _Cells) -> Array:
    """Return the sum of each cluster's gains less the means of their strata, stratum by stratum.

    A treated side's value rises with the sum of its clusters' residuals.
    """
    means: Array = cells.total.sum(axis=0) / cells.count.sum(axis=0)
    residuals: Array = cells.total - cells.count * means
    return residuals


def _statistic(cells: _Cells, deals: npt.NDArray[np.bool_]) -> Array:
    """Return value over error; rounded, so that equal deals are ties however they were added up."""
    value, error = _estimates(cells, deals.astype(np.float64))
    rounded: Array = np.round(value / np.maximum(error, SMALLEST), 6)
    return rounded


def _interval(cells: _Cells, seed: int, draws: int = 1000) -> tuple[float, float]:
    """Return the 95 % percentile interval over clusters drawn again, on each side by itself."""
    rng, treated = np.random.default_rng(seed), cells.treated
    treated_draws, control_draws = (
        rng.multinomial(size, np.full(size, 1 / size), size=draws).astype(np.float64)
        for size in (treated, len(cells.count) - treated)
    )
    first, second = treated_draws @ cells.count[:treated], control_draws @ cells.count[treated:]
    weight = np.divide(
        first * second, first + second, out=np.zeros_like(first), where=first + second > 0
    )
    gains = [
        np.divide(side @ total, n, out=np.zeros_like(n), where=n > 0)
        for side, total, n in (
            (treated_draws, cells.total[:treated], first),
            (control_draws, cells.total[treated:], second),
        )
    ]
    total_weight = weight.sum(axis=1)
    valid = total_weight > 0  # a draw may lack a side in every stratum
    values = ((gains[0] - gains[1]) * weight).sum(axis=1)[valid] / total_weight[valid]
    low, high = np.quantile(values, (0.025, 0.975)) if len(values) else (-1.0, 1.0)
    return float(low), float(high)
