"""Which clients are marked, by hypothesis, with a booster or a hidden client among them.

A group of marked clients alone does not say how much of its marks estimates hold. One member may
boost its update: multiply it before it is sent, to which tests answer that do not go by size. And
the members' updates may hide the mark of one more client, whose own estimates hold them with the
wrong sign. Where the sets are known it is known whose mark a group would hide, and in which rounds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Hypotheses:
    """Which clients are marked, by hypothesis."""

    groups: npt.NDArray[np.intp]
    """Of each, its group without a hidden client."""
    weights: Array
    """How many times estimates hold a client's marked update beside what is known of their shares:
    1, a booster's gain, or 0 for who is not marked; (hypotheses, clients)."""
    starts: Array
    """The share of a mark from which tests may answer at once."""

    @property
    def members(self) -> Mask:
        """Return who is marked, (hypotheses, clients)."""
        return np.asarray(self.weights > 0)


def hypotheses(
    groups: Mask,
    evidence: Sequence[MarkEvidence],
    shares: Sequence[Array],
    present: Sequence[Mask],
    starts: Sequence[float],
) -> Hypotheses:
    """Return every group as it is and with each booster, and these with each hidden client.

    `groups` are of clients, (groups, clients), `evidence` is how each client shows the mark,
    `shares` and `present` are those of the rounds. `starts` are the shares of a mark from which
    tests may answer at once, the least first: beyond it only groups that hide somebody matter, for
    who answers from a larger share also answers from a smaller one.
    """
    found = list(_boosted_groups(groups, evidence, starts[0]))
    candidates = np.asarray(groups.any(axis=0))
    hiding = [(one, starts[0]) for one in found] + [(found[0], start) for start in starts[1:]]
    found += [
        _with_hidden(one, candidates, evidence, shares, present, start) for one, start in hiding
    ]
    return Hypotheses(
        groups=np.concatenate([one.groups for one in found]),
        weights=np.concatenate([one.weights for one in found]),
        starts=np.concatenate([one.starts for one in found]),
    )


def _boosted_groups(
    groups: Mask, evidence: Sequence[MarkEvidence], start: float
) -> Iterator[Hypotheses]:
    """Yield all groups as they are, then those with each booster and each gain."""
    everybody, each = np.arange(len(evidence)), np.arange(len(groups))
    yield Hypotheses(each, groups.astype(np.float64), np.full(len(groups), start))
    highest = max((one.z for one in evidence), default=0.0)
    for client, one in enumerate(evidence):
        near = one.z + BOOSTED_MARGIN * one.spread >= highest
        having = np.flatnonzero(groups[:, client])
        if near and one.deviations > MIN_BOOSTED_Z and len(having):
            for gain in GAINS:
                gains = np.where(everybody == client, gain, 1.0)
                yield Hypotheses(
                    having, np.where(groups[having], gains, 0.0), np.full(len(having), start)
                )


def _with_hidden(
    found: Hypotheses,
    candidates: Mask,
    evidence: Sequence[MarkEvidence],
    shares: Sequence[Array],
    present: Sequence[Mask],
    start: float,
) -> Hypotheses:
    """Return hypotheses with one more client each, whose mark the group hides.

    On average over rounds its estimates show no more than `MAX_SHOWN` of a mark, where too little
    in a round counts as nothing; and it shows no less than half of what the strongest client would
    with as much, allowing for chance, and for an estimate that holds an update more than once. Who
    belongs to some group is not hidden.
    """
    least = max(start, LEAST_SHOWING) - CLOSE
    shown = np.zeros(found.weights.shape)
    for held, here in zip(shares, present, strict=True):
        content = 1 + found.weights @ held.T
        shown += np.where(content >= least, np.minimum(content, 1.0), 0.0) * here
    shown /= np.maximum(np.sum(present, axis=0), 1)
    most = max((one.mean for one in evidence), default=0.0)
    most /= max(1.0, *(float(np.abs(held).max(initial=0.0)) for held in shares))
    largest = np.array([one.largest for one in evidence])
    boosted = (found.weights > 1).any(axis=1)
    limits = np.where(boosted, MAX_SHOWN_BESIDE_BOOSTER, MAX_SHOWN)[:, None]
    possible = (largest >= MIN_SHARE_OF_STRONGEST * shown * most) & (shown <= limits + CLOSE)
    rows, clients = np.nonzero(possible & ~candidates)
    weights = found.weights[rows]
    weights[np.arange(len(rows)), clients] = 1.0
    return Hypotheses(found.groups[rows], weights, np.full(len(rows), start))
