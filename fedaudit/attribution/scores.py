"""The owner's scores on disk: the result of each mark's test of every estimate of every round."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.watermark import Score
from fedaudit.attribution import federation_checks as checks
from fedaudit.attribution.copies import NO_COPIES, Copies, check_copies, copies_in_rounds
from fedaudit.attribution.server.round_designs import DesignSettings, check_settings
from fedaudit.config.options import build
from fedaudit.system.files import atomic_text, check_version, read_json

SCHEMA_VERSION = "1.0"
LARGEST_COUNT = 2**63
"""The largest number of things that a test may count."""
LARGEST = 1_000.0
"""The largest score, in standard deviations: a decision computes a distribution as wide as the
scores, in time that grows with their square. Marked clients had 8 to 17 in trials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundScores(DesignSettings):
    """One round: by mark, the scores of the global adapter and of every client's estimate."""

    round: int
    reference: Mapping[str, Score]
    clients: Mapping[str, Mapping[str, Score]]
    strength: Mapping[str, float] = field(default_factory=dict)
    """rho of each client's estimate."""
    effective: Mapping[str, float] = field(default_factory=dict)
    """n_eff of each client's estimate."""
    estimates: str = ""
    """A digest of the estimates that were tested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Everything that a decision needs; it holds no key."""

    schema_version: str = SCHEMA_VERSION
    run: str
    base: str
    aggregation: str
    clients: tuple[str, ...]
    marks: Mapping[str, str]
    """The plugin of each mark, by id."""
    tests: Mapping[str, str] = field(default_factory=dict)
    """A few digits that identify each mark and its settings, by id."""
    commitments: Mapping[str, str] = field(default_factory=dict)
    """The commitment of each mark, by id, as its owner's file gives it."""
    asked: str = ""
    """When the first sum was asked for, as stated in the estimates."""
    trained: str = ""
    """When the first round began, as stated in the estimates."""
    noted: str = ""
    """The SHA-256 of the commitments that the server noted with the first sum, by the estimates."""
    device: str = ""
    """The device and dtype that the models ran with, for example "cpu float32"."""
    dimension: int
    weights: Mapping[str, float] = field(default_factory=dict)
    """The weight of each client's update in the sums; empty where all weigh the same."""
    federation_rounds: int = 0
    """How many rounds the federation had when it was last estimated, as stated in the estimates."""
    copies: Copies = NO_COPIES
    """What the server found of adapters that were sent more than once, by the estimates."""
    rounds: tuple[RoundScores, ...] = ()
    seconds: float = 0.0
    """The time for the models' answers and their tests, over all rounds."""


def score_differences(scores: Scores, client: str, mark: str) -> dict[int, float]:
    """Return s = F(global + D) - F(global) for each round that a client took part in."""
    return {
        r.round: r.clients[client][mark].z - r.reference[mark].z
        for r in scores.rounds
        if client in r.clients
    }


def scored_copies(scores: Scores) -> Copies:
    """Return the copies in the rounds that were scored."""
    return copies_in_rounds(scores.copies, {r.round for r in scores.rounds})


def unscored_rounds(scores: Scores) -> list[tuple[int, int]]:
    """Return the spans (first, last) of the federation's rounds that have no scores."""
    numbers = sorted({r.round for r in scores.rounds if r.round > 0})
    last = max([scores.federation_rounds, *numbers])
    return [
        (low + 1, high - 1) for low, high in pairwise([0, *numbers, last + 1]) if high - low > 1
    ]


def empty_rounds(scores: Scores, client: str, mark: str) -> tuple[int, ...]:
    """Return the rounds in which a client has no score, because a test had nothing to count.

    The score is a difference, so either test may be the empty one: that of the client's estimate
    or that of the global adapter.
    """
    return tuple(
        r.round
        for r in scores.rounds
        if client in r.clients and 0 in (r.clients[client][mark].n, r.reference[mark].n)
    )


def write(scores: Scores, path: Path) -> None:
    """Write the scores, whole or not at all."""
    atomic_text(path, json.dumps(asdict(scores), indent=2, allow_nan=False) + "\n")


def read(path: Path) -> Scores:
    """Return the scores in `path`; raises InputError for a file that holds none."""
    table = read_json(path, f"There is no file of scores {path}.")
    check_version(table, path, SCHEMA_VERSION)
    try:
        scores = build(Scores, table, path.name)
    except UsageError:
        raise InputError(
            f"{path} holds no scores; `fedaudit attribute score` writes such a file."
        ) from None
    _check(scores, path)
    _check_masks(scores, path)
    return scores


def _check(scores: Scores, path: Path) -> None:
    numbers = [r.round for r in scores.rounds]
    checks.check_round_numbers(numbers, str(path))
    checks.check_federation_rounds(numbers, scores.federation_rounds, str(path))
    checks.check_clients(scores.clients, str(path))
    check_copies(scores.copies, scores.clients, scores.federation_rounds, str(path))
    tested = {r.round: {"": r.estimates} for r in scores.rounds if r.estimates}
    checks.check_copied_rounds(tested, str(path), "the tests of the estimates")
    if strangers := sorted({*scores.tests, *scores.commitments} - set(scores.marks)):
        raise InputError(f"{path} names a mark {strangers[0]!r}, which it did not test.")
    for record in scores.rounds:
        tables = (record.reference, *record.clients.values())
        if set(record.clients) - set(scores.clients) or any(
            set(t) != set(scores.marks) for t in tables
        ):
            raise InputError(f"{path}: round {record.round} does not match its clients and marks.")
    for mark in scores.marks:
        tests = (t[mark] for r in scores.rounds for t in (r.reference, *r.clients.values()))
        if len({(len(score.null), len(score.parts)) for score in tests}) > 1:
            raise InputError(
                f"{path}: the tests for {mark} have unlike numbers of null marks or parts."
            )
    for record in scores.rounds:
        for score in (s for t in (record.reference, *record.clients.values()) for s in t.values()):
            if any(not 0 <= n <= LARGEST_COUNT for n in (score.n, score.hits, *score.parts)):
                raise InputError(f"{path}: round {record.round} has a count that is not possible.")
            if any(abs(z) > LARGEST for z in (score.z, *score.null)):
                raise InputError(
                    f"{path}: round {record.round} has a score beyond {LARGEST:,.0f} standard "
                    "deviations: no decision can be worked out."
                )


def _check_masks(scores: Scores, path: Path) -> None:
    for record in scores.rounds:
        where = f"{path}: round {record.round}"
        check_settings(record, len(record.clients), where)
        masks = (record.strength, record.effective)
        if any(set(table) != set(record.clients) for table in masks):
            raise InputError(f"{where} has no strength of its clients' masks.")
        checks.check_masks([*record.strength.values(), *record.effective.values()], where)
    checks.check_update(scores.weights, scores.clients, scores.dimension, str(path))
