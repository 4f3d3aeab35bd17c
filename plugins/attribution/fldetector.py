"""FLDetector (Zhang et al., 2022): a client whose updates do not follow from the rounds before.

It looks for clients that manipulate, not for what they trained on: someone who trains honestly on
watermarked documents sends updates as consistent as anybody's. FedAttr finds none of them by it.

What a client's next update should be, going by the rounds before (FLDetector, section 4.1).

With m_t the mean update of round t, the global model moves by w_{t+1} - w_t = m_t, and the mean
itself changes by m_{t+1} - m_t. L-BFGS makes a matrix H of the latest such pairs, with
H (w_{t+1} - w_t) ~ m_{t+1} - m_t, and a client that sent u in round r is expected to send

    u + H (w_t - w_r)

in round t. FLDetector says so of gradients; updates are gradients times a negative constant, which
goes through H and out of it unchanged.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedaudit.api import (
    AttributionContext,
    AttributionResult,
    Attributor,
    ClientScore,
    InputError,
    Progress,
    Update,
    no_progress,
)

from . import gap, plaintext

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, kw_only=True)
class FLDetector(Attributor):
    """Predict every client's update from earlier rounds; suspect the clients predicted worst."""

    name: ClassVar[str] = "fldetector"
    paper: ClassVar[str] = "Zhang et al. 2022, arXiv:2207.09209"

    history: int = 5
    """Pairs of rounds that the curvature is estimated from."""
    window: int = 10
    """How many of the last rounds a client's score is averaged over."""
    clusters: int = 7
    """The most groups that the gap statistic tries."""
    references: int = 10
    """Uniform draws that the gap statistic compares with."""

    def __post_init__(self) -> None:
        if min(self.history, self.window, self.references) < 1 or self.clusters < 2:
            raise ValueError(
                "history, window and references must be at least 1, clusters at least 2."
            )

    def attribute(self, context: AttributionContext) -> AttributionResult:
        """Flag the higher of two clusters of scores, if the scores are of more than one group."""
        rounds = [
            (s.participants, read)
            for s, read in plaintext.readable_rounds(context.rounds, self.name)
        ]
        progress = context.progress("predicting clients' updates")
        scores = mean_scores(distances(rounds, self.history, progress), self.window)
        flagged = self._flag_clients(scores, context.seed)
        everybody = plaintext.clients(context.rounds)
        return AttributionResult(
            clients=tuple(ClientScore(client=c, flagged=c in flagged) for c in everybody),
            limits=(plaintext.limit(self.name), *self._limits(everybody, scores)),
        )

    def _flag_clients(self, scores: Mapping[str, float], seed: int) -> frozenset[str]:
        names = sorted(scores)
        values = [scores[name] for name in names]
        count = gap.groups(values, most=self.clusters, references=self.references, seed=seed)
        if count == 1:
            return frozenset()
        higher = gap.upper_half(values, seed)
        return frozenset(name for name, high in zip(names, higher, strict=True) if high)

    def _limits(self, everybody: Sequence[str], scores: Mapping[str, float]) -> list[str]:
        """Return what it could not judge."""
        caveats = []
        if silent := len(everybody) - len(scores):
            caveats.append(
                f"{self.name}: no update of {silent} of {len(everybody)} clients could be "
                "predicted, because that needs an earlier update of the client and two earlier "
                "rounds of anybody; they are not flagged."
            )
        if len(scores) < 3:
            caveats.append(
                f"{self.name}: {len(scores)} scores are too few for groups among them (three at "
                "least); no client is flagged."
            )
        return caveats


def mean_scores(distances: Sequence[Mapping[str, float]], window: int) -> dict[str, float]:
    """Return each client's mean over the last `window` rounds, of those it has a distance in.

    A round's distances are divided by their mean, so that rounds weigh alike whoever took part.
    """
    ratios: dict[str, list[float]] = {}
    for far in distances[-window:]:
        mean = sum(far[client] for client in sorted(far)) / max(1, len(far))
        for client, value in far.items():
            ratios.setdefault(client, []).append(value / mean if mean else 1.0)
    return {client: sum(values) / len(values) for client, values in ratios.items()}


Round = tuple[Sequence[str], Callable[[str], Update]]
"""Who took part, and the function that reads an update."""


def distances(
    rounds: Sequence[Round], history: int, progress: Progress = no_progress
) -> list[dict[str, float]]:
    """Return for every round how far each client's update is from what was expected of it (L2).

    H takes the latest `history` pairs. It needs one, from two rounds: nothing is expected before
    the third, nor of a client that comes for the first time. Sums are in float64; every update is
    read once, and each client's last and each round's mean stay in memory. Raises InputError for
    updates of different shapes.
    """
    means: list[Update] = []
    last: dict[str, tuple[int, Update]] = {}
    by_round: list[dict[str, float]] = []
    for done, (participants, read) in enumerate(rounds, start=1):
        changes: dict[int, Update] = {}
        far, total = {}, None
        for client in sorted(participants):
            update = read(client)
            _check_shapes(update, means[0] if means else total, client)
            if client in last and len(means) > 1:
                before, previous = last[client]
                if before not in changes:
                    changes[before] = expected_change(means, before, history)
                far[client] = _length(update, previous, changes[before])
            last[client] = len(means), update
            total = _sum(total, update)
        if total is not None:
            means.append({name: tensor / len(participants) for name, tensor in total.items()})
        by_round.append(far)
        progress(done, len(rounds))
    return by_round


def expected_change(means: Sequence[Update], before: int, history: int) -> Update:
    """Return H (w_t - w_before), for t the number of `means`, of which there are two at least."""
    steps = list(means[:-1])[-history:]
    later = means[len(means) - len(steps) :]
    changes = [_weighted_sum((1.0, -1.0), pair) for pair in zip(later, steps, strict=True)]
    moved = _weighted_sum([1.0] * (len(means) - before), means[before:])
    return hessian_product(steps, changes, moved)


def hessian_product(steps: Sequence[Update], changes: Sequence[Update], v: Update) -> Update:
    """Return H v, by the compact form of BFGS (Byrd, Nocedal & Schnabel 1994, theorem 2.3).

    S are the steps and Y the changes, oldest first, sigma = y's / s's of the latest pair:

        H = sigma I - [sigma S, Y] M^-1 [sigma S, Y]',  M = [[sigma S'S, L], [L', -D]],

    with L what is strictly below the diagonal of S'Y and D that diagonal. Where M is singular its
    pseudo-inverse stands in, and sigma is 0 where the latest step is.
    """
    import numpy as np

    inner = np.array([[dot(s, y) for y in changes] for s in steps])
    gram = np.array([[dot(s, t) for t in steps] for s in steps])
    sigma = inner[-1, -1] / gram[-1, -1] if gram[-1, -1] else 0.0
    below = np.tril(inner, -1)
    matrix = np.block([[sigma * gram, below], [below.T, -np.diag(np.diag(inner))]])
    right = [*(sigma * dot(s, v) for s in steps), *(dot(y, v) for y in changes)]
    solved = np.linalg.lstsq(matrix, np.array(right), rcond=None)[0]
    along_s, along_y = solved[: len(steps)], solved[len(steps) :]
    weights = [sigma, *(-sigma * along_s), *(-along_y)]
    return _weighted_sum([float(weight) for weight in weights], [v, *steps, *changes])


def dot(a: Update, b: Update) -> float:
    """Return the inner product of all tensors, in float64."""
    return sum(float((a[name].double() * b[name].double()).sum()) for name in sorted(a))


def _weighted_sum(weights: Sequence[float], vectors: Sequence[Update]) -> Update:
    """Return the weighted sum of vectors, in float64."""
    return {
        name: sum(
            (w * v[name].double() for w, v in zip(weights[1:], vectors[1:], strict=True)),
            start=weights[0] * tensor.double(),
        )
        for name, tensor in vectors[0].items()
    }


def _length(update: Update, previous: Update, change: Update) -> float:
    """Return |update - (previous + change)|, one tensor at a time."""
    squares = (
        float((update[name].double() - previous[name].double() - change[name]).square().sum())
        for name in sorted(update)
    )
    return float(sum(squares) ** 0.5)


def _sum(total: "dict[str, torch.Tensor] | None", update: Update) -> "dict[str, torch.Tensor]":
    if total is None:
        return {name: tensor.double() for name, tensor in update.items()}
    return {name: tensor + update[name].double() for name, tensor in total.items()}


def _check_shapes(update: Update, reference: Update | None, client: str) -> None:
    """Raise InputError unless both have the same tensors; `reference` is an earlier client's."""

    def shapes(tensors: Update) -> Mapping[str, tuple[int, ...]]:
        return {name: tuple(tensor.shape) for name, tensor in tensors.items()}

    if reference is not None and shapes(update) != shapes(reference):
        raise InputError(
            f"The update of {client} has other tensors than those before it: updates of different "
            "ranks or modules cannot be predicted from each other."
        )
