"""How much of a marked client's mark other clients' updates hide in its own estimates.

A marked client's estimate may hold other marked clients' updates with the wrong sign, and so less
of the mark in all, or so little that no test answers. Where the sets are known, it is known for
each group of marked clients whose mark that would hide, and in which rounds.
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


@dataclass(frozen=True, slots=True)
class HiddenClients:
    """Groups of which one more client may be marked, and which one: (pairs,) each."""

    groups: npt.NDArray[np.intp]
    clients: npt.NDArray[np.intp]

    def groups_with_hidden(self, groups: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return each group with its hidden client among the members, (pairs, clients)."""
        everybody = groups[self.groups]
        everybody[np.arange(len(everybody)), self.clients] = True
        return everybody


def find_hidden_clients(
    shares: Sequence[Array],
    present: Sequence[npt.NDArray[np.bool_]],
    groups: npt.NDArray[np.bool_],
    evidence: Sequence[MarkEvidence],
    start: float,
) -> HiddenClients:
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
    return HiddenClients(*np.nonzero(possible))
