"""What each client itself adds to its scores, for whoever knows the sets of the sums.

A measurement beside the decision, which knows no sets: see docs/estimator.md.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import InputError
from fedaudit.api.records import Measurement
from fedaudit.attribution.measurements import PROTOCOL
from fedaudit.attribution.scores import RoundScores, Scores
from fedaudit.attribution.server import sums_log
from fedaudit.attribution.server.masks import foreign_shares
from fedaudit.attribution.server.round_designs import PAIRS, SHARED
from fedaudit.metrics.attribution import subset_design
from fedaudit.metrics.attribution.combinations import Combination
from fedaudit.metrics.attribution.shared_sets import SharedSets
from fedaudit.metrics.attribution.subset_design import Design
from fedaudit.system.files import existing_path

if TYPE_CHECKING:
    import numpy as np

UNTOLD = "the estimates of its rounds do not tell its update from those of others"


def read_log(path: Path, run: str) -> dict[int, list[Combination]]:
    """Return what the estimates of each round of a run are made of, by the server's log of sums.

    Raises InputError for the log of another run, for a round that was asked for by two designs, and
    for sets that are none.
    """
    found: dict[int, list[Combination]] = {}
    for entry in sums_log.read(existing_path(path, "file"), run):
        number = int(entry["round"])
        if number in found:
            raise InputError(
                f"{path} has two designs of round {number}: it does not say which one was scored."
            )
        try:
            found[number] = _combinations(entry)
        except (KeyError, TypeError, ValueError, ArithmeticError):
            raise InputError(f"{path}: the sets of round {number} cannot be read.") from None
    return found


def _combinations(entry: Mapping[str, Any]) -> list[Combination]:
    if entry.get("protocol", PAIRS) == SHARED:
        sets = _sets(entry["designs"]["sets"])
        names = sorted({who for members in sets for who in members})
        return SharedSets(tuple(names), sets, 0).combinations()
    designs = [
        Design(str(one["target"]), _sets(one["include"]), _sets(one["exclude"]))
        for one in entry["designs"]
    ]
    return [Combination(one.target, subset_design.sum_coefficients(one)) for one in designs]


def _sets(found: Iterable[Iterable[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(map(str, members)) for members in found)


def contribution_rows(
    scores: Scores, estimates: Mapping[int, Sequence[Combination]], weights: Mapping[str, float]
) -> Iterator[Measurement]:
    """Yield what each client adds to its Z for each mark, with an interval of 95 %.

    `estimates` are of every scored round, `weights` what updates are multiplied by in its sums.
    Raises InputError for a round, or a client's estimate in it, that they lack.
    """
    from fedaudit.metrics.attribution.contributions import contributions

    if not scores.rounds:
        return
    held = [_held(one, estimates, weights, scores.clients) for one in scores.rounds]
    for mark in scores.marks:
        marked = [_scored(one, mark) for one in scores.rounds]
        values, nulls = [own for own, _ in marked], [own for _, own in marked]
        for who, found in zip(scores.clients, contributions(held, values, nulls), strict=True):
            if found.rounds:
                yield Measurement(
                    kind="attribution",
                    plugin=PROTOCOL,
                    metric="contribution",
                    value=found.value,
                    low=found.low,
                    high=found.high,
                    n=found.rounds,
                    scope={"client": who, "mark": mark},
                    reason="" if found.value is not None else UNTOLD,
                )


def _held(
    one: RoundScores,
    estimates: Mapping[int, Sequence[Combination]],
    weights: Mapping[str, float],
    clients: Sequence[str],
) -> "np.ndarray":
    """Return how much each estimate of a round holds of every client, (estimates, clients)."""
    import numpy as np

    if one.round not in estimates:
        raise InputError(f"The log has no sets of round {one.round}, which was scored.")
    by = {estimate.target: estimate for estimate in estimates[one.round]}
    if lacking := [who for who in one.clients if who not in by]:
        raise InputError(f"The log has no estimate of {lacking[0]} in round {one.round}.")
    rows = []
    for who in one.clients:
        of = dict.fromkeys(by[who].held(), 1.0) | dict(weights)
        shares = foreign_shares(by[who], of)
        rows.append([1.0 if other == who else shares.get(other, 0.0) for other in clients])
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(clients))


def _scored(one: RoundScores, mark: str) -> "tuple[np.ndarray, np.ndarray]":
    """Return a round's differences from the global model: of the mark, and of its null marks."""
    import numpy as np

    start = one.reference[mark]
    own = [one.clients[who][mark] for who in one.clients]
    values = np.array([score.z - start.z for score in own], dtype=np.float64)
    null = np.array([score.null for score in own], dtype=np.float64).reshape(len(own), -1)
    return values, null - np.array(start.null, dtype=np.float64)
