"""The shares of other clients in estimates, and what each client itself adds to its scores.

For anyone who knows the sets of the sums: see docs/estimator.md.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import isclose
from pathlib import Path
from typing import Any

import numpy as np

from fedaudit.api.errors import InputError
from fedaudit.api.records import Measurement
from fedaudit.attribution.decision.contamination import Shares
from fedaudit.attribution.measurements import PROTOCOL
from fedaudit.attribution.scores import RoundScores, Scores
from fedaudit.attribution.server import sums_log
from fedaudit.attribution.server.masks import foreign_shares
from fedaudit.attribution.server.round_designs import SHARED, read_designs, read_sets
from fedaudit.metrics.attribution.contributions import contributions
from fedaudit.metrics.attribution.shared_sets import SharedSets
from fedaudit.metrics.attribution.subset_design import Combination
from fedaudit.system.files import existing_path

CONTRIBUTION = "contribution"
"""The metric for what a client itself adds to its scores."""

NOT_IDENTIFIABLE = "the estimates of its rounds do not tell its update from those of others"


def read_log(path: Path, run: str) -> dict[int, list[Combination]]:
    """Return, by round, the combinations of sums that give the estimates, from the server's log.

    Raises InputError for the log of another run, for a round with two designs, and for sets that
    cannot be read.
    """
    combinations: dict[int, list[Combination]] = {}
    for entry in sums_log.asked_entries(sums_log.read(existing_path(path, "file"), run)):
        number = int(entry["round"])
        if number in combinations:
            raise InputError(
                f"{path} has two designs of round {number}: it does not say which one was scored."
            )
        try:
            combinations[number] = _combinations(entry)
            _check_own_share(combinations[number])
        except (KeyError, TypeError, ValueError, ArithmeticError):
            raise InputError(f"{path}: the sets of round {number} cannot be read.") from None
    return combinations


def _combinations(entry: Mapping[str, Any]) -> list[Combination]:
    if entry["protocol"] == SHARED:
        sets = read_sets(entry["designs"]["sets"])
        names = sorted({client for members in sets for client in members})
        return SharedSets(tuple(names), sets).combinations()
    return [design.combination for design in read_designs(entry["designs"])]


def _check_own_share(combinations: Iterable[Combination]) -> None:
    """Raise ValueError for an estimate that does not hold its own client's update exactly once."""
    for combination in combinations:
        if not isclose(combination.client_shares().get(combination.target, 0.0), 1, abs_tol=1e-6):
            raise ValueError(f"The sets give no estimate of {combination.target}.")


def estimate_shares(
    scores: Scores, estimates: Mapping[int, Sequence[Combination]], weights: Mapping[str, float]
) -> dict[int, dict[str, dict[str, float]]]:
    """Return the share of each other client's update in each scored estimate, by round and target.

    `estimates` are those of every scored round; `weights` are what updates are multiplied by in the
    sums. Raises InputError if a scored round or a client's estimate in it is missing.
    """
    return {r.round: _round_shares(r, estimates, weights) for r in scores.rounds}


def _round_shares(
    round_scores: RoundScores,
    estimates: Mapping[int, Sequence[Combination]],
    weights: Mapping[str, float],
) -> dict[str, dict[str, float]]:
    if round_scores.round not in estimates:
        raise InputError(f"The log has no sets of round {round_scores.round}, which was scored.")
    by_target = {estimate.target: estimate for estimate in estimates[round_scores.round]}
    if lacking := [client for client in round_scores.clients if client not in by_target]:
        raise InputError(f"The log has no estimate of {lacking[0]} in round {round_scores.round}.")
    shares = {}
    for client in round_scores.clients:
        full_weights = dict.fromkeys(by_target[client].client_shares(), 1.0) | dict(weights)
        shares[client] = foreign_shares(by_target[client], full_weights)
    return shares


def contribution_rows(
    scores: Scores, shares: Shares, flagged: Mapping[str, Collection[str]]
) -> Iterator[Measurement]:
    """Yield what each flagged client itself adds to its Z for each mark that flags it.

    The intervals of all clients and marks hold together with 95 %, if answers are proportional to
    what an estimate contains. Other clients get no row: where answers are not, an innocent client's
    interval often lies above 0, and would read as an accusation.

    `shares` are the shares of other clients in each scored estimate (`estimate_shares`), `flagged`
    are the marks that flag each client (`Decision.marks`).
    """
    if not scores.rounds:
        return
    matrices = [_share_matrix(r, shares[r.round], scores.clients) for r in scores.rounds]
    for mark in scores.marks:
        marked = [_score_differences(r, mark) for r in scores.rounds]
        values, nulls = [x for x, _ in marked], [x for _, x in marked]
        for client, contribution in zip(
            scores.clients,
            contributions(matrices, values, nulls, marks=len(scores.marks)),
            strict=True,
        ):
            if mark in flagged.get(client, ()):
                yield Measurement(
                    kind="attribution",
                    plugin=PROTOCOL,
                    metric=CONTRIBUTION,
                    value=contribution.value,
                    low=contribution.low,
                    high=contribution.high,
                    n=contribution.rounds,
                    scope={"client": client, "mark": mark},
                    reason="" if contribution.value is not None else NOT_IDENTIFIABLE,
                )


def _share_matrix(
    round_scores: RoundScores, shares: Mapping[str, Mapping[str, float]], clients: Sequence[str]
) -> np.ndarray:
    """Return the share of every client in each estimate of a round, (estimates, clients)."""
    rows = [
        [1.0 if name == client else shares[client].get(name, 0.0) for name in clients]
        for client in round_scores.clients
    ]
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(clients))


def _score_differences(round_scores: RoundScores, mark: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a round's score differences from the global model: of the mark and its null marks."""
    start = round_scores.reference[mark]
    scores = [round_scores.clients[client][mark] for client in round_scores.clients]
    values = np.array([score.z - start.z for score in scores], dtype=np.float64)
    null = np.array([score.null for score in scores], dtype=np.float64).reshape(len(scores), -1)
    return values, null - np.array(start.null, dtype=np.float64)
