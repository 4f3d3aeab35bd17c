"""The owner's scores on disk: what each mark's test found for every estimate of every round."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.watermark import Score
from fedaudit.attribution.server.round_designs import DesignSettings, check_settings
from fedaudit.config.options import build
from fedaudit.system.files import atomic_text, check_version, read_json

SCHEMA_VERSION = "1.0"
LARGEST_DIMENSION = 2**63
"""Numbers in an update; no model has as many."""
LARGEST = 1_000.0
"""Of a score, in standard deviations: the law that a decision works out is as wide as the scores,
and its time grows with their square. Marked clients had 8 to 17 in trials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundScores(DesignSettings):
    """One round: by mark, the score of the global adapter and that of every client's estimate."""

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
    """A few digits that tell each mark and its settings from others, by id."""
    commitments: Mapping[str, str] = field(default_factory=dict)
    """The commitment of each mark that has a salt, by id, as its owner's file gives it."""
    asked: str = ""
    """When the first sum was asked for, as the estimates say."""
    device: str = ""
    """Where the models were asked, and in which numbers: "cpu float32"."""
    dimension: int
    weights: Mapping[str, float] = field(default_factory=dict)
    """What each client's update weighs in sums; empty where they weigh the same."""
    rounds: tuple[RoundScores, ...] = ()
    seconds: float = 0.0
    """What asking and testing took, over all rounds."""


def score_differences(scores: Scores, client: str, mark: str) -> dict[int, float]:
    """Return s = F(global + D) - F(global) by round, of the rounds that a client took part in."""
    return {
        one.round: one.clients[client][mark].z - one.reference[mark].z
        for one in scores.rounds
        if client in one.clients
    }


def write(scores: Scores, path: Path) -> None:
    """Write the scores, whole or not at all."""
    atomic_text(path, json.dumps(asdict(scores), indent=2, allow_nan=False) + "\n")


def read(path: Path) -> Scores:
    """Return the scores in `path`; raises InputError for a file that holds none."""
    table = read_json(path, f"There is no file of scores {path}.")
    check_version(table, path, SCHEMA_VERSION)
    try:
        rounds = tuple(_round(item) for item in table["rounds"])
        found = build(Scores, {**table, "rounds": rounds}, path.name)
    except (UsageError, KeyError, TypeError, AttributeError):
        raise InputError(
            f"{path} holds no scores; `fedaudit attribute score` writes such a file."
        ) from None
    _check(found, path)
    _check_masks(found, path)
    return found


def _round(item: Mapping[str, Any]) -> RoundScores:
    return build(
        RoundScores,
        {
            **item,
            "reference": _scores(item["reference"]),
            "clients": {who: _scores(own) for who, own in item["clients"].items()},
        },
        "rounds",
    )


def _scores(table: Mapping[str, Any]) -> dict[str, Score]:
    return {mark: build(Score, own, "score") for mark, own in table.items()}


def _check(found: Scores, path: Path) -> None:
    numbers = [one.round for one in found.rounds]
    if len(set(numbers)) < len(numbers):
        raise InputError(f"{path} has a round twice.")
    if len(set(found.clients)) < len(found.clients):
        raise InputError(f"{path} has a client twice.")
    for one in found.rounds:
        tables = (one.reference, *one.clients.values())
        if set(one.clients) - set(found.clients) or any(set(t) != set(found.marks) for t in tables):
            raise InputError(f"{path}: round {one.round} does not match its clients and marks.")
    for mark in found.marks:
        tests = (t[mark] for one in found.rounds for t in (one.reference, *one.clients.values()))
        if len({len(score.null) for score in tests}) > 1:
            raise InputError(f"{path}: the tests for {mark} have unlike numbers of null marks.")
    for one in found.rounds:
        for score in (s for t in (one.reference, *one.clients.values()) for s in t.values()):
            if any(abs(z) > LARGEST for z in (score.z, *score.null)):
                raise InputError(
                    f"{path}: round {one.round} has a score beyond {LARGEST:,.0f} standard "
                    "deviations: no decision can be worked out."
                )


def _check_masks(found: Scores, path: Path) -> None:
    """Refuse masks that no estimate has: the report says what they let through."""
    for one in found.rounds:
        check_settings(one, len(one.clients), f"{path}: round {one.round}")
        masks = (one.strength, one.effective)
        numbers = [value for own in masks for value in own.values()]
        if any(set(own) != set(one.clients) for own in masks if any(masks)) or not all(
            isinstance(value, int | float) and 0 < value < math.inf for value in numbers
        ):
            raise InputError(f"{path}: round {one.round} has no strength of its clients' masks.")
    shares = found.weights
    if any(not 0 < own < math.inf for own in shares.values()) or (
        shares and set(found.clients) - set(shares)
    ):
        raise InputError(f"{path}: its clients' weights must be positive, one for each.")
    if not 0 <= found.dimension <= LARGEST_DIMENSION:
        raise InputError(f"{path}: the dimension of an update is not from 0 to 2^63.")
