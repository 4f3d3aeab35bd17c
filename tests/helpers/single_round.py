"""Scores of one round under one mark, for tests of what is decided on them."""

from collections.abc import Mapping
from typing import Any

from fedaudit.api.watermark import Score
from fedaudit.attribution.scores import RoundScores, Scores

MARK = "m"


def score(z: float) -> Score:
    """Return a score without null marks."""
    return Score(z=z, p_value=0.5, n=1, hits=0, chance=0.5)


def single_round(
    shows: Mapping[str, float], *, strength: float, effective: float = 1.0, **settings: Any
) -> Scores:
    """Return the scores by the clients' Z, of estimates of equal strength and these settings."""
    return Scores(
        run="r",
        base="b",
        aggregation="fedit",
        clients=tuple(shows),
        marks={MARK: "kgw"},
        dimension=8,
        federation_rounds=1,
        rounds=(
            RoundScores(
                round=1,
                reference={MARK: score(0.0)},
                clients={who: {MARK: score(z)} for who, z in shows.items()},
                strength=dict.fromkeys(shows, strength),
                effective=dict.fromkeys(shows, effective),
                **settings,
            ),
        ),
    )
