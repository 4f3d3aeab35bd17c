"""How much of a marked client's mark other clients' updates hide in its own estimates.

A marked client's estimate may hold other marked clients' updates with the wrong sign, and so less
of the mark in all, or so little that no test answers. Where the sets are known, it is known for
each group of marked clients whose mark that would hide, and in which rounds; where they are not,
how likely it is to hide how much.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedaudit.metrics.attribution.marked_groups import MIN_SHARE_OF_STRONGEST, MarkEvidence

Array = npt.NDArray[np.float64]

CLOSE = 1e-9
"""Shares that differ by no more are the same."""
LEAST_SHOWING = 0.5
"""An estimate that holds less than this share of a mark in all may show nothing of it, whatever the
share is from which tests are taken to answer at once."""
MAX_SHOWN = 0.5
"""The largest share of its mark that a hidden client's estimates show on average over rounds."""
HIDING_FACTORS = (1.0, 1.15, 1.3, 1.5, 1.75, 2.0, 3.0, 5.0)
"""How many times as much as any marked client shows in its estimate an update of its own may."""


@dataclass(frozen=True, slots=True)
class HiddenMembers:
    """Groups of which one more client may be marked, and which one: (pairs,) each."""

    groups: npt.NDArray[np.intp]
    clients: npt.NDArray[np.intp]

    def members(self, groups: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return the members of the groups with who is hidden, (pairs, clients)."""
        everybody = groups[self.groups]
        everybody[np.arange(len(everybody)), self.clients] = True
        return everybody


def hidden_members(
    shares: Sequence[Array],
    present: Sequence[npt.NDArray[np.bool_]],
    groups: npt.NDArray[np.bool_],
    evidence: Sequence[MarkEvidence],
    start: float,
) -> HiddenMembers:
    """Return who else may be marked if the members of a group are: (groups, clients) before.

    `shares` and `present` are those of the rounds, `evidence` is how the clients show the mark, and
    tests answer at once from the share `start` on. On average over rounds the client's estimates
    show no more than half of a mark, where too little in a round counts as nothing; and it shows no
    less than half of what the strongest client would with as much, allowing for chance, and for an
    estimate that holds an update more than once. Who belongs to some group as it is, is not hidden.
    """
    took = np.sum(present, axis=0)
    contents = (1 + groups.astype(np.float64) @ held.T for held in shares)
    shown = sum(
        np.where(content >= max(start, LEAST_SHOWING) - CLOSE, np.minimum(content, 1.0), 0.0) * here
        for content, here in zip(contents, present, strict=True)
    ) / np.maximum(took, 1)
    most = max((one.mean for one in evidence), default=0.0)
    most /= max(1.0, *(float(np.abs(held).max(initial=0.0)) for held in shares))
    largest = np.array([one.largest for one in evidence])
    possible = (largest >= MIN_SHARE_OF_STRONGEST * shown * most) & (shown <= MAX_SHOWN + CLOSE)
    possible &= ~groups.any(axis=0)
    return HiddenMembers(*np.nonzero(possible))


def factor_probabilities(contents: Sequence[Array], *, independent: bool) -> Array:
    """Return how likely each of HIDING_FACTORS is for a group of marked clients, (factors,).

    `contents` are draws of how much of the mark each member's estimate holds, where 1 is its own
    update alone, (draws,) each. The member whose estimate holds most shows most, and a whole update
    would show that divided by what it holds; the next larger factor is taken, the largest for all
    above. Where members' estimates are not independent, the probability that all hold little is
    bounded by that of the one for which it is least likely.
    """
    edges = 1 / np.array(HIDING_FACTORS) - CLOSE
    below = np.array([[(held < edge).mean() for edge in edges] for held in contents])
    every = below.prod(axis=0) if independent else below.min(axis=0)
    return np.asarray(-np.diff(np.concatenate([[1.0], every[:-1], [0.0]])))
