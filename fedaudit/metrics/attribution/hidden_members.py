"""Which clients may be marked although they show nothing, since others' updates hide their mark.

A marked client's estimate may hold other marked clients' updates with the wrong sign, and so little
of the mark in all that no test answers. Where the sets are known, it is known for each group of
marked clients whose mark that would hide, and in which rounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedaudit.metrics.attribution.contamination import CLOSE
from fedaudit.metrics.attribution.marked_groups import MIN_SHARE_OF_STRONGEST, MarkEvidence

Array = npt.NDArray[np.float64]

SHOWING = 0.5
"""An estimate that holds less than this share of a mark in all may show nothing of it."""
MAX_SHOWING = 0.5
"""The largest share of its rounds in which a hidden client's estimates hold more than that."""


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
) -> HiddenMembers:
    """Return who else may be marked if the members of a group are: (groups, clients) before.

    `shares` and `present` are those of the rounds, `evidence` is how the clients show the mark.
    Its estimates hold too little of the mark to show it in at least half of its rounds, and it
    shows no less than half of what the strongest client would in the others. Who belongs to some
    group as it is, needs no hiding.
    """
    took = np.sum(present, axis=0)
    contents = (1 + groups.astype(np.float64) @ held.T for held in shares)
    showing = sum(
        (content >= SHOWING - CLOSE) * here for content, here in zip(contents, present, strict=True)
    )
    often = showing / np.maximum(took, 1)
    most = max((one.mean for one in evidence), default=0.0)
    largest = np.array([one.largest for one in evidence])
    possible = (largest >= MIN_SHARE_OF_STRONGEST * often * most) & (often <= MAX_SHOWING)
    possible &= ~groups.any(axis=0)
    return HiddenMembers(*np.nonzero(possible))
