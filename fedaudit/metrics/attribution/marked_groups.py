"""Groups of clients that may be the ones that trained on a mark.

An estimate that holds enough of a mark may respond at once like a marked client. How much it holds
depends on which clients are marked, and an innocent client whose estimates respond in this way
looks marked itself. So every group that may be the marked clients is tried.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

MIN_MARKED_Z = 2.0
"""The Z, in standard deviations by chance, above which a client may be marked; half of it if the
leak into its estimates may hide its own mark."""
MIN_SHARE_OF_STRONGEST = 0.5
"""The least share of the strongest client's score that a marked client shows, within `Z_MARGIN`."""
Z_LOSS_ALLOWANCE = 1.25
"""Standard deviations of the leak into a client's estimates by which its score may be lower."""
Z_MARGIN = 2.0
"""Standard deviations by chance by which a client's mark may be stronger than its Z."""
MAX_NESTED_CLIENTS = 8
"""The maximum number of clients in a group if the sets are not known."""
MAX_ENUMERATED_CLIENTS = 10
"""The maximum number of clients of which all groups are tried if the sets are known."""
MIN_MUTUAL_SHARE = 0.35
"""The least share of each other's mark that two clients must hide to be tried as a hidden pair."""
MIN_MUTUAL_Z = 1.0
"""The unmixed Z, in standard deviations by chance, above which clients of a hidden pair may be
marked."""
SINGULAR = 1e-6
"""The determinant below which two clients' equations are not solved."""
HIDING_CLIENTS = 9
"""The number of others whose updates may hide a mark if the sets are known: in a large federation
most clients are innocent and hide nothing."""

Group = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MarkEvidence:
    """A client's evidence for a mark over the rounds that it took part in."""

    z: float
    spread: float
    """The standard deviation of Z by chance."""
    rounds: int

    @property
    def deviations(self) -> float:
        """Return Z in standard deviations by chance."""
        return self.z / self.spread

    @property
    def mean(self) -> float:
        """Return the mean score per round, at least 0."""
        return max(0.0, self.z) / math.sqrt(self.rounds)

    @property
    def largest(self) -> float:
        """Return the mean score plus Z_MARGIN standard deviations, to allow for chance."""
        return (max(0.0, self.z) + Z_MARGIN * self.spread) / math.sqrt(self.rounds)

    @property
    def signal_share(self) -> float:
        """Return the share of the scores that counts as a mark: sqrt(1 - S^2 / Z^2), or 0.

        A mark adds Z^2 - S^2 to Z squared on average, where S is the standard deviation of Z by
        chance; it is distributed over the client's rounds like its scores. A Z below S shows
        nothing.
        """
        return math.sqrt(max(0.0, 1 - 1 / self.deviations**2)) if self.z > 0 else 0.0


def candidate_clients(
    evidence_by_client: Mapping[str, MarkEvidence], strength: float, largest_share: float = 1.0
) -> Group:
    """Return the clients that may be marked, the one with the highest mean score first.

    A client with a much lower score than another is not a candidate. Its score may be lower if its
    estimates hold others' marked updates with a negative sign, which averages out over rounds
    (`strength` is rho of an estimate), and if other estimates hold its update more than once
    (`largest_share`).
    """
    order = sorted(evidence_by_client, key=lambda name: (-evidence_by_client[name].mean, name))
    return tuple(
        name
        for name in order
        if _may_be_marked(
            evidence_by_client[name], evidence_by_client[order[0]].mean, strength, largest_share
        )
    )


def _may_be_marked(
    evidence: MarkEvidence, most: float, strength: float, largest_share: float
) -> bool:
    remaining_share = (
        min(
            MIN_SHARE_OF_STRONGEST,
            max(0.0, 1 - Z_LOSS_ALLOWANCE * math.sqrt(strength / evidence.rounds)),
        )
        / MIN_SHARE_OF_STRONGEST
    )
    least_deviations = MIN_MARKED_Z * (1 + remaining_share) / 2
    least = remaining_share * MIN_SHARE_OF_STRONGEST / max(1.0, largest_share) * most
    return evidence.deviations > least_deviations and evidence.largest >= least


def candidates_with_known_sets(
    evidence_by_client: Mapping[str, MarkEvidence],
    strength: float,
    shares: Sequence[npt.NDArray[np.float64]],
) -> Group:
    """Return the clients that may be marked if the shares in estimates are known, by round."""
    most = max((float(np.abs(matrix).max()) for matrix in shares), default=0.0)
    clients = max(map(len, shares), default=2)
    hiding = strength * min(1.0, HIDING_CLIENTS / max(1, clients - 1))
    visible = candidate_clients(evidence_by_client, hiding, most)
    hidden = _hidden_pairs(evidence_by_client, shares, most)
    return visible + tuple(name for name in hidden if name not in visible)


def _hidden_pairs(
    evidence_by_client: Mapping[str, MarkEvidence],
    shares: Sequence[npt.NDArray[np.float64]],
    largest_share: float,
) -> Group:
    """Return the clients that may be marked because they hide each other's mark, pair by pair.

    On average over rounds, the estimates of each hold the other's update with a negative share.
    Their scores are unmixed under the assumption that these two are the marked ones. Pairs are
    sorted by the lower of their unmixed scores, the highest first.
    """
    if not shares:
        return ()
    names = list(evidence_by_client)
    held = np.sum(shares, axis=0) / np.array(
        [[evidence.rounds] for evidence in evidence_by_client.values()]
    )
    least = MIN_SHARE_OF_STRONGEST / max(1.0, largest_share)
    strongest = max(evidence.mean for evidence in evidence_by_client.values())
    # The scores of two that hide all of each other's mark, or more, cannot be unmixed.
    hide = (np.maximum(held, held.T) <= -MIN_MUTUAL_SHARE) & (held * held.T < 1 - SINGULAR)
    pairs = []
    for pair in np.argwhere(np.triu(hide, 1)).tolist():
        unmixed = np.linalg.inv(np.eye(2) + held[np.ix_(pair, pair)] * (1 - np.eye(2)))
        members = [evidence_by_client[names[at]] for at in pair]
        means = unmixed @ [m.z / math.sqrt(m.rounds) for m in members]
        deviations = np.sqrt(np.square(unmixed) @ [m.spread**2 / m.rounds for m in members])
        largest = means + Z_MARGIN * deviations
        if np.all(means > MIN_MUTUAL_Z * deviations) and np.all(largest >= least * strongest):
            pairs.append((-float(means.min()), sorted(names[at] for at in pair)))
    return tuple(dict.fromkeys(name for _, pair in sorted(pairs) for name in pair))


def nested_groups(evidence_by_client: Mapping[str, MarkEvidence], strength: float) -> list[Group]:
    """Return the strongest client, the strongest two, and so on, for unknown sets.

    It is not known which client has which share in an estimate, so only the number of marked
    clients matters. There is at least one group, unless there are no clients.
    """
    names = candidate_clients(evidence_by_client, strength) or tuple(
        sorted(evidence_by_client, key=lambda n: (-evidence_by_client[n].mean, n))[:1]
    )
    return [names[: count + 1] for count in range(min(len(names), MAX_NESTED_CLIENTS))]


def enumerate_groups(names: Group) -> list[Group]:
    """Return every group of these clients, the empty one first, for known sets.

    All groups of the first `MAX_ENUMERATED_CLIENTS` are listed; weaker clients only occur in nested
    groups.
    """
    first = names[:MAX_ENUMERATED_CLIENTS]
    groups = [group for count in range(len(first) + 1) for group in combinations(first, count)]
    return groups + [names[: count + 1] for count in range(MAX_ENUMERATED_CLIENTS, len(names))]
