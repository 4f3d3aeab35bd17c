"""Hypotheses of which clients are marked, including boosters and hidden clients.

A group of marked clients alone does not determine how much of its marks estimates hold. One member
may boost its update, that is, multiply it before sending, to which tests respond that do not depend
on size. And the members' updates may hide the mark of one more client, whose own estimates hold
them with a negative sign. If the sets are known, it is known whose mark a group would hide, and in
which rounds.
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
"""The largest difference of shares that count as equal."""
GAINS = (3.0, 10.0)
"""The factors by which a booster may multiply its update."""
MIN_BOOSTED_Z = 4.0
"""The least Z of a booster, in standard deviations by chance."""
BOOSTED_MARGIN = 3.0
"""Standard deviations by chance by which another client's Z may exceed a booster's, since a
client's own update does not hide its mark in its own estimates."""
LEAST_SHOWING = 0.5
"""The total share of a mark below which an estimate may show nothing of it, whatever the share from
which tests are assumed to respond at once."""
MAX_SHOWN = 0.5
"""The largest share of its mark that a hidden client's estimates show on average over rounds."""
MAX_SHOWN_BESIDE_BOOSTER = 0.25
"""The same for a group with a booster, which hides much of everybody's mark in many rounds: a
client that shows more is not hidden, but may be marked by what it shows."""
BLOCK = 20_000
"""The approximate number of hypotheses in memory at a time."""


@dataclass(frozen=True, slots=True)
class GroupHypotheses:
    """A block of hypotheses of which clients are marked."""

    groups: npt.NDArray[np.intp]
    """The index of each hypothesis's group, without a hidden client."""
    weights: Array
    """The factor on the known shares of each client's marked update: 1, a booster's gain, or 0 for
    clients that are not marked; (hypotheses, clients)."""
    starts: Array
    """The share of a mark from which tests may respond at once, by hypothesis."""

    @property
    def is_marked(self) -> Mask:
        """Return whether each client is marked, (hypotheses, clients)."""
        return np.asarray(self.weights > 0)

    def __len__(self) -> int:
        """Return the number of hypotheses."""
        return len(self.groups)

    def slice_rows(self, start: int, stop: int) -> "GroupHypotheses":
        """Return the hypotheses from `start` to `stop`."""
        rows = slice(start, stop)
        return GroupHypotheses(self.groups[rows], self.weights[rows], self.starts[rows])


def enumerate_hypotheses(
    groups: Mask,
    evidence: Sequence[MarkEvidence],
    shares: Sequence[Array],
    present: Sequence[Mask],
    starts: Sequence[float],
) -> Iterator[GroupHypotheses]:
    """Yield every group as it is and with each booster, and all of these with each hidden client.

    `groups` are (groups, clients), `evidence` has an entry per client, `shares` and `present` one
    per round. `starts` are the shares of a mark from which tests may respond at once, the least
    first. For the others, only groups that hide a client are tried, since an estimate that responds
    from a larger share on also responds from a smaller one on.
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
    """Yield hypotheses in blocks of at most about BLOCK."""
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

    On average over rounds, the hidden client's estimates show at most `MAX_SHOWN` of a mark, where
    too small a share in a round counts as 0. Its score is at least half of what the strongest
    client would have with the same share, allowing for chance and for estimates that hold an update
    more than once. Clients that belong to some group are not hidden.
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
