"""How many of a member's records stand where they do because they were trained on, in every round.

N records were trained on and M like them were not; which ones was decided at random. A record is
*above* at the rate f if at most floor(f M) of the M others are as high. Of N records that nothing
was learnt from, the number above has a negative hypergeometric distribution, whatever the scores
are. So the number that are above because of training is at least the observed number less a high
quantile of it: the attributable effect of Rosenbaum (2001, Biometrika 88:219), a bound that needs
no model of scores. It assumes that how high a record would stand that was not trained on does not
depend on which of the others were.

Scores of successive rounds depend on each other in unknown ways, so each round has its share of the
level: level / (n (n + 1)) for the n-th, which add up to the level. By the union bound all bounds of
all rounds hold at once with a probability of at least 1 - level, also at a round chosen by looking
at earlier ones: they are a confidence sequence (Howard et al. 2021, arXiv:1810.08240), and the
largest so far is a lower bound on the largest number so far. The mean of e-values over dependent
rounds is an e-value, but its running maximum is not (Ramdas et al. 2023, arXiv:2210.01948), and
bounds that multiply e-values need rounds of new records.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedaudit.metrics.privacy.membership_tests import chance_of_hits
from fedaudit.metrics.privacy.roc import allowed_above

RATES = (0.01, 0.1, 0.5)
"""The shares of others that may be as high: a hundredth, a tenth, a half."""
SIDES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributableCount:
    """The number of records above at a rate, and how many of them are due to training."""

    rate: float
    hits: int
    """The number of records above, ties with others not counted."""
    expected: float
    """The mean number of records above if nothing was learnt from any."""
    low: int
    """At least so many are above because of training."""
    high: int
    """At most so many are."""


def round_level(level: float, number: int) -> float:
    """Return the share of `level` of the round `number`, from 1 on; all rounds' add up to it.

    Raises ValueError for another number.
    """
    if number < 1:
        raise ValueError(f"Rounds are numbered from 1 on, not {number}.")
    return level / (number * (number + 1))


def score_bounds(
    members: Sequence[float], others: Sequence[float], *, level: float
) -> list[AttributableCount]:
    """Return the bounds at every rate, from the scores of members and others.

    All of them hold together with a probability of at least 1 - `level`. Raises ValueError without
    scores.
    """
    if not len(members) or not len(others):
        raise ValueError("Bounds need members and others.")
    compared = [(score, others) for score in members]
    return ranked_bounds(compared, level=level)


def ranked_bounds(
    compared: Sequence[tuple[float, Sequence[float]]], *, level: float
) -> list[AttributableCount]:
    """Return the bounds of scores that are each compared with others of their own, equally many.

    For canaries, which are each ranked among the secrets of their sentence. Where the sentences
    order the secrets alike the law is the negative hypergeometric one, otherwise a narrower one.
    """
    size = len(compared[0][1])
    arrays: dict[int, np.ndarray[tuple[int], np.dtype[np.float64]]] = {}
    for _, others in compared:
        if id(others) not in arrays:
            arrays[id(others)] = np.sort(np.asarray(others, dtype=np.float64))
    as_high, higher = (
        [size - int(np.searchsorted(arrays[id(others)], score, side)) for score, others in compared]
        for side in ("left", "right")
    )
    share = level / (len(RATES) * SIDES)
    return [_count(as_high, higher, size, rate, share) for rate in RATES]


def _count(
    as_high: Sequence[int], higher: Sequence[int], others: int, rate: float, level: float
) -> AttributableCount:
    """Return the bounds at a rate, each at a level."""
    members, allowed = len(as_high), allowed_above(rate, others)
    hits = sum(count <= allowed for count in as_high)
    fewest, most = chance_limits(members, others, allowed, level)
    return AttributableCount(
        rate=rate,
        hits=hits,
        expected=members * (allowed + 1) / (others + 1),
        low=max(0, hits - most),
        # A tie counts as above here, so that ties cannot hide a record.
        high=max(0, sum(count <= allowed for count in higher) - fewest),
    )


def attributable_hits(
    hits: int, members: int, other_hits: int, others: int, *, level: float
) -> int:
    """Return how many of the members' hits are surely due to training, wrong up to a `level`.

    A hit is any outcome that is counted, such as a record that comes out word for word. If u hits
    are due to training, then without it each of the other hits is as likely a member's as any
    record is, so that the members' number is hypergeometric (Rosenbaum 2001, section 3).
    """
    from scipy.stats import hypergeom

    for due in range(hits):
        left = hits - due
        law = hypergeom(members + others, left + other_hits, members)
        if law.sf(left - 1) > level:
            return due
    return hits


@lru_cache(maxsize=10_000)
def chance_limits(members: int, others: int, allowed: int, level: float) -> tuple[int, int]:
    """Return the least and the greatest number of members above, each exceeded up to a `level`.

    A member is above if at most `allowed` of the others are as high, and all orders are equally
    likely.
    """
    at_least = chance_of_hits(np.arange(1, members + 1), members, others, allowed)
    # More than `most` has a probability of at most `level`, and so has fewer than `fewest`.
    return int((1 - at_least <= level).sum()), int((at_least > level).sum())
