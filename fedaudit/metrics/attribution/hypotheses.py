"""Which clients are marked, by hypothesis, with a booster or a hidden client among them.

A group of marked clients alone does not say how much of its marks estimates hold. One member may
boost its update: multiply it before it is sent, to which tests answer that do not go by size. And
the members' updates may hide the mark of one more client, whose own estimates hold them with the
wrong sign. Where the sets are known it is known whose mark a group would hide, and in which rounds.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from fedaudit.metrics.attribution.marked_groups import MIN_SHARE_OF_STRONGEST, MarkEvidence

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

CLOSE = 1e-9
"""Shares that differ by no more are the same."""
GAINS = (3.0, 10.0)
"""How many times its update a booster sends."""
MIN_BOOSTED_Z = 4.0
"""The least Z of a booster, in standard deviations by chance."""
BOOSTED_MARGIN = 3.0
"""Standard deviations by chance by which another client's Z may exceed a booster's: nobody's update
hides its mark in its own estimates."""
LEAST_SHOWING = 0.5
"""An estimate that holds less than this share of a mark in all may show nothing of it, whatever the
share is from which tests are taken to answer at once."""
MAX_SHOWN = 0.5
"""The largest share of its mark that a hidden client's estimates show on average over rounds."""
MAX_SHOWN_BESIDE_BOOSTER = 0.25
"""The same where the group has a booster, who hides much of everybody's mark in many rounds: a
client that shows more is not hidden, it may be marked by what it shows."""
BLOCK = 20_000
"""GroupHypotheses that are in memory at a time, about."""


@dataclass(frozen=True, slots=True)
class GroupHypotheses:
    """Which clients are marked, by hypothesis."""

    groups: npt.NDArray[np.intp]
    """Of each, its group without a hidden client."""
    weights: Array
    """How many times estimates hold a client's marked update beside what is known of their shares:
    1, a booster's gain, or 0 for who is not marked; (hypotheses, clients)."""
    starts: Array
    """The share of a mark from which tests may answer at once."""

    @property
    def is_marked(self) -> Mask:
        """Return who is marked, (hypotheses, clients)."""
        return np.asarray(self.weights > 0)

    def __len__(self) -> int:
        """Return how many these are."""
        return len(self.groups)

    def slice_rows(self, start: int, stop: int) -> "GroupHypotheses":
        """Return some of them."""
        rows = slice(start, stop)
        return GroupHypotheses(self.groups[rows], self.weights[rows], self.starts[rows])


def enumerate_hypotheses(
    groups: Mask,
    evidence: Sequence[MarkEvidence],
    shares: Sequence[Array],
    present: Sequence[Mask],
    starts: Sequence[float],
) -> Iterator[GroupHypotheses]:
    """Yield every group as it is and with each booster, and these with each hidden client.

    `groups` are of clients, (groups, clients), `evidence` is how each client shows the mark,
    `shares` and `present` are those of the rounds. `starts` are the shares of a mark from which
    tests may answer at once, the least first: beyond it only groups that hide somebody matter, for
    who answers from a larger share also answers from a smaller one.
    """
    boosted = list(_boosted_groups(groups, evidence, starts[0]))
    candidates = np.asarray(groups.any(axis=0))
    hiding = [(block, starts[0]) for block in boosted]
    hiding += [(boosted[0], start) for start in starts[1:]]
    rows = max(1, BLOCK // groups.shape[1])
    with_hidden = (
        _with_hidden(
            block.slice_rows(first, first + rows), candidates, evidence, shares, present, start
        )
        for block, start in hiding
        for first in range(0, len(block), rows)
    )
    yield from _merged(chain(boosted, with_hidden))


def _merged(pieces: Iterable[GroupHypotheses]) -> Iterator[GroupHypotheses]:
    """Yield hypotheses in blocks: as many together as there is room for."""
    block: list[GroupHypotheses] = []
    for piece in pieces:
        if block and sum(map(len, block)) + len(piece) > BLOCK:
            yield _concatenated(block)
            block = []
        block.append(piece)
    yield _concatenated(block)


def _concatenated(pieces: Sequence[GroupHypotheses]) -> GroupHypotheses:
    return GroupHypotheses(
        groups=np.concatenate([piece.groups for piece in pieces]),
        weights=np.concatenate([piece.weights for piece in pieces]),
        starts=np.concatenate([piece.starts for piece in pieces]),
    )


def _boosted_groups(
    groups: Mask, evidence: Sequence[MarkEvidence], start: float
) -> Iterator[GroupHypotheses]:
    """Yield all groups as they are, then those with each booster and each gain."""
    everybody = np.arange(len(evidence))
    yield GroupHypotheses(
        np.arange(len(groups)), groups.astype(np.float64), np.full(len(groups), start)
    )
    highest = max((mark.z for mark in evidence), default=0.0)
    for client, mark in enumerate(evidence):
        near = mark.z + BOOSTED_MARGIN * mark.spread >= highest
        having = np.flatnonzero(groups[:, client])
        if near and mark.deviations > MIN_BOOSTED_Z and len(having):
            for gain in GAINS:
                gains = np.where(everybody == client, gain, 1.0)
                yield GroupHypotheses(
                    having, np.where(groups[having], gains, 0.0), np.full(len(having), start)
                )


def _with_hidden(
    block: GroupHypotheses,
    candidates: Mask,
    evidence: Sequence[MarkEvidence],
    shares: Sequence[Array],
    present: Sequence[Mask],
    start: float,
) -> GroupHypotheses:
    """Return hypotheses with one more client each, whose mark the group hides.

    On average over rounds its estimates show no more than `MAX_SHOWN` of a mark, where too little
    in a round counts as nothing; and it shows no less than half of what the strongest client would
    with as much, allowing for chance, and for an estimate that holds an update more than once. Who
    belongs to some group is not hidden.
    """
    least = max(start, LEAST_SHOWING) - CLOSE
    shown = np.zeros(block.weights.shape)
    for round_shares, took_part in zip(shares, present, strict=True):
        content = 1 + block.weights @ round_shares.T
        shown += np.where(content >= least, np.minimum(content, 1.0), 0.0) * took_part
    shown /= np.maximum(np.sum(present, axis=0), 1)
    most = max((mark.mean for mark in evidence), default=0.0)
    most /= max(1.0, *(float(np.abs(round_shares).max(initial=0.0)) for round_shares in shares))
    largest = np.array([mark.largest for mark in evidence])
    boosted = (block.weights > 1).any(axis=1)
    limits = np.where(boosted, MAX_SHOWN_BESIDE_BOOSTER, MAX_SHOWN)[:, None]
    possible = (largest >= MIN_SHARE_OF_STRONGEST * shown * most) & (shown <= limits + CLOSE)
    rows, clients = np.nonzero(possible & ~candidates)
    weights = block.weights[rows]
    weights[np.arange(len(rows)), clients] = 1.0
    return GroupHypotheses(block.groups[rows], weights, np.full(len(rows), start))
