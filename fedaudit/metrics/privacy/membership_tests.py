"""Permutation tests, over groups of records, of whether scores distinguish members from others.

Null hypothesis: which groups were trained on is independent of the scores. Groups are then
exchangeable, however similar the records of one group are, and the p values are exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedaudit.metrics.privacy.roc import allowed_above, rates_above

DRAWS = 9_999
FEWEST = 999
"""The minimum number of draws, to which it is reduced for very many groups."""
CELLS = 20_000_000
"""The maximum number of array elements in memory at once."""


@dataclass(frozen=True, slots=True)
class MembershipPValues:
    """One-sided p values of two tests of the same scores."""

    ranks: float
    """The p value of the members' mean rank (Wilcoxon's statistic)."""
    tail: float
    """The p value of the share of members above a threshold that few of the others exceed."""
    low_ranks: float
    """The p value of members ranking as low as they do, which training does not explain."""


def true_positives_p_value(hits: int, members: int, others: int, fpr: float) -> float:
    """Return the p value of `hits` members above a threshold that `fpr` of the others may exceed.

    Null hypothesis: every order of all records' scores is equally likely. Records count as
    independent.
    """
    return float(chance_of_hits(np.array(hits), members, others, allowed_above(fpr, others)))


def chance_of_hits(
    hits: npt.NDArray[np.int64], members: int, others: int, allowed: int
) -> npt.NDArray[np.float64]:
    """Return the probabilities that at least so many members are above, by chance.

    A member is above if at most `allowed` of the others are as high, and all orders are equally
    likely. At least h are above if and only if, of the h + allowed highest of all, at most
    `allowed` are others, which has a hypergeometric probability.
    """
    from scipy.stats import hypergeom

    return np.asarray(hypergeom.cdf(allowed, members + others, others, hits + allowed))


def permutation_p_values(
    members: Sequence[float],
    non_members: Sequence[float],
    groups: tuple[Sequence[str], Sequence[str]],
    *,
    fpr: float,
    seed: int,
    draws: int = DRAWS,
) -> MembershipPValues:
    """Return the p values of both tests; permutations keep the number of groups on either side.

    `groups` are those of the members and of the others; a name on both sides is two groups. The
    observed value counts as one of the draws (Phipson and Smyth 2010), so p is never 0. The tail
    test's p is 1 if `fpr` of the others is less than one record. Raises ValueError without scores.
    """
    if not len(members) or not len(non_members):
        raise ValueError("A test needs members and others.")
    scores = np.concatenate([np.asarray(members, float), np.asarray(non_members, float)])
    names = [f"m{name}" for name in groups[0]] + [f"o{name}" for name in groups[1]]
    group_index = {name: i for i, name in enumerate(dict.fromkeys(names))}
    group_of = np.array([group_index[name] for name in names])
    inside = np.array([name[0] == "m" for name in group_index])
    permutations = _draws(inside, _count_draws(len(inside), draws), seed)
    from scipy.stats import rankdata

    ranks = rankdata(scores)
    sums, sizes = (np.bincount(group_of, weights=w) for w in (ranks, np.ones(len(ranks))))
    means = (permutations @ sums) / (permutations @ sizes)
    mean = float(sums[inside].sum() / sizes[inside].sum())
    return MembershipPValues(
        ranks=_p_value(means, mean),
        tail=_tail(scores, group_of, inside, permutations, fpr),
        low_ranks=_p_value(-means, -mean),
    )


def least_p_value(members: int, others: int, draws: int = DRAWS) -> float:
    """Return the least p value that is possible with so many groups and draws.

    Of all assignments of the groups, one is the true one: 1 / C(members + others, members). With
    fewer draws than assignments, it is 1 / (1 + draws).
    """
    from math import comb

    groups = members + others
    return 1 / min(comb(groups, members), 1 + _count_draws(groups, draws))


def _count_draws(groups: int, draws: int) -> int:
    return min(draws, max(FEWEST, CELLS // groups))


def _draws(inside: npt.NDArray[np.bool_], draws: int, seed: int) -> npt.NDArray[np.bool_]:
    """Return random memberships (draws, groups) with the same number of members."""
    rng = np.random.default_rng(seed)
    order = rng.permuted(np.tile(inside, (draws, 1)), axis=1)
    return np.asarray(order, dtype=np.bool_)


def _tail(
    scores: npt.NDArray[np.float64],
    group_of: npt.NDArray[np.int64],
    inside: npt.NDArray[np.bool_],
    permutations: npt.NDArray[np.bool_],
    fpr: float,
) -> float:
    """Return the p value of the share of members above the threshold that `fpr` allows."""
    order = np.argsort(-scores, kind="stable")
    truth = _above(inside[None, group_of[order]], scores[order], fpr)[0]
    if np.isnan(truth):
        return 1.0
    step = max(1, CELLS // len(scores))
    shares = [
        _above(permutations[start : start + step][:, group_of[order]], scores[order], fpr)
        for start in range(0, len(permutations), step)
    ]
    return _p_value(np.nan_to_num(np.concatenate(shares), nan=1.0), float(truth))


def _above(
    inside: npt.NDArray[np.bool_], scores: npt.NDArray[np.float64], fpr: float
) -> npt.NDArray[np.float64]:
    """Return, per row, the share of members above a threshold that `fpr` of the others may exceed.

    `scores` are in descending order. The result is NaN if `fpr` allows none of the others.
    """
    share, allowed = rates_above(scores, inside, ~inside, fpr)
    return np.where(allowed >= 1, share, np.nan)


def _p_value(statistics: npt.NDArray[np.float64], truth: float) -> float:
    return float((1 + (statistics >= truth - 1e-12).sum()) / (1 + len(statistics)))
