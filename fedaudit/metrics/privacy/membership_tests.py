"""Whether scores tell members from others: permutation tests over groups of records.

Null hypothesis: which groups were trained on has nothing to do with the scores. Groups are then
exchangeable, however alike the records of one group are, and the p values are exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

DRAWS = 9_999
FEWEST = 999
"""Of very many groups fewer draws are made, but not fewer than this."""
CELLS = 20_000_000
"""So many numbers are held at once."""


@dataclass(frozen=True, slots=True)
class MembershipPValues:
    """One-sided p values of two tests of the same scores."""

    ranks: float
    """That members' mean rank is as high as it is (Wilcoxon's statistic)."""
    tail: float
    """That as many members are above what a share of the others reaches."""


def permutation_p_values(
    members: Sequence[float],
    others: Sequence[float],
    groups: tuple[Sequence[str], Sequence[str]],
    *,
    fpr: float,
    seed: int,
    draws: int = DRAWS,
) -> MembershipPValues:
    """Return the p values of both tests, with as many groups on either side as there are.

    `groups` are those of the members and of the others; one name on both sides is two groups. A
    p value counts the truth as one of the draws (Phipson and Smyth 2010), so that it is never 0.
    The tail test's p is 1 where `fpr` of the others is less than one of them. Raises ValueError
    without scores.
    """
    if not len(members) or not len(others):
        raise ValueError("A test needs members and others.")
    scores = np.concatenate([np.asarray(members, float), np.asarray(others, float)])
    names = [f"m{name}" for name in groups[0]] + [f"o{name}" for name in groups[1]]
    place = {name: at for at, name in enumerate(dict.fromkeys(names))}
    of = np.array([place[name] for name in names])
    inside = np.array([name[0] == "m" for name in place])
    drawn = _draws(inside, min(draws, max(FEWEST, CELLS // len(inside))), seed)
    from scipy.stats import rankdata

    ranks = rankdata(scores)
    sums, sizes = (np.bincount(of, weights=w) for w in (ranks, np.ones(len(ranks))))
    means = (drawn @ sums) / (drawn @ sizes)
    found = _p_value(means, float(sums[inside].sum() / sizes[inside].sum()))
    return MembershipPValues(found, _tail(scores, of, inside, drawn, fpr))


def _draws(inside: npt.NDArray[np.bool_], draws: int, seed: int) -> npt.NDArray[np.bool_]:
    """Return who else might have been the members: as many groups, each choice equally likely."""
    rng = np.random.default_rng(seed)
    order = rng.permuted(np.tile(inside, (draws, 1)), axis=1)
    return np.asarray(order, dtype=np.bool_)


def _tail(
    scores: npt.NDArray[np.float64],
    of: npt.NDArray[np.int64],
    inside: npt.NDArray[np.bool_],
    drawn: npt.NDArray[np.bool_],
    fpr: float,
) -> float:
    """Return the p value of the share of members above the threshold that `fpr` allows."""
    order = np.argsort(-scores, kind="stable")
    truth = _above(inside[None, of[order]], scores[order], fpr)[0]
    if np.isnan(truth):
        return 1.0
    step = max(1, CELLS // len(scores))
    parts = [
        _above(drawn[at : at + step][:, of[order]], scores[order], fpr)
        for at in range(0, len(drawn), step)
    ]
    return _p_value(np.nan_to_num(np.concatenate(parts), nan=1.0), float(truth))


def _above(
    inside: npt.NDArray[np.bool_], scores: npt.NDArray[np.float64], fpr: float
) -> npt.NDArray[np.float64]:
    """Return in each row the share of members above the first score that is not allowed.

    `scores` fall; that score is of the other after floor(fpr times others) of them, and who has the
    same is not above it. NaN where no other is allowed.
    """
    others = np.cumsum(~inside, axis=1)
    allowed = np.floor(fpr * others[:, -1] + 1e-9)
    first = np.argmax(others > allowed[:, None], axis=1)
    reached = np.searchsorted(-scores, -scores[first], side="left")
    members = np.concatenate([np.zeros((len(inside), 1)), np.cumsum(inside, axis=1)], axis=1)
    share = members[np.arange(len(inside)), reached] / members[:, -1]
    return np.where(allowed >= 1, share, np.nan)


def _p_value(drawn: npt.NDArray[np.float64], truth: float) -> float:
    return float((1 + (drawn >= truth - 1e-12).sum()) / (1 + len(drawn)))
