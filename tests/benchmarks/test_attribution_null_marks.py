"""Null marks in the place of the owner's, and what is counted of them."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from fedaudit.api.watermark import Score
from fedaudit.attribution.scores import RoundScores, Scores

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def made():
    """The script's names; it imports those of another script beside it."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield runpy.run_path(str(BENCHMARKS / "attribution_null_marks.py"))
    finally:
        sys.path.remove(str(BENCHMARKS))


def score(z: float, null: list[float]) -> Score:
    return Score(z=z, p_value=0.5, n=1, hits=0, chance=0.5, null=tuple(null))


def federation(z: float, null: list[float], clients: int = 4) -> Scores:
    names = [f"c{n}" for n in range(clients)]
    own = {name: {"m": score(z, null)} for name in names}
    one = RoundScores(
        round=1,
        reference={"m": score(0.0, [0.0] * len(null))},
        clients=own,
        strength=dict.fromkeys(names, 1.0),
        effective=dict.fromkeys(names, 1.0),
        others=2,
        pairs=5,
        limit=1.0,
    )
    return Scores(
        run="r", base="b", aggregation="fedit", clients=tuple(names), marks={"m": "kgw"},
        dimension=1, rounds=(one,),
    )  # fmt: skip


def test_a_null_mark_changes_places_with_the_owners(made):
    scores = made["with_null_mark"](federation(9.0, [1.0, 2.0, 3.0]), 1)
    for of in (scores.rounds[0].clients["c0"]["m"], scores.rounds[0].reference["m"]):
        assert len(of.null) == 2
    assert scores.rounds[0].clients["c0"]["m"].z == 2.0
    assert list(scores.rounds[0].clients["c0"]["m"].null) == [1.0, 3.0]


def test_the_owners_own_score_counts_for_nothing(made):
    """Z of 40 would flag everybody; its null marks are chance."""
    null = np.random.default_rng(0).standard_normal(64).tolist()
    found = made["tally"](federation(40.0, null), None)
    assert found.highest == pytest.approx(max(null) / max(1.0, _spread(null)), rel=0.01)
    assert not found.flagged.any()
    assert len(found.p_values) == 64 * 4


def test_a_null_mark_that_somebody_answers_is_seen(made):
    """Of 64 null marks one has a Z of 40, for one client among four: that decision flags it."""
    null = np.random.default_rng(0).standard_normal(64).tolist()
    scores = federation(0.0, null)
    scores.rounds[0].clients["c2"]["m"] = score(0.0, [40.0, *null[1:]])
    found = made["tally"](scores, None)
    assert np.flatnonzero(found.flagged).tolist() == [0]
    assert np.flatnonzero(found.by_holm).tolist() == [0]


def test_a_row_counts_by_hand(made):
    one = made["Tally"](
        p_values=np.array([0.5, 0.01, 0.001, 0.0001]),
        by_chance=np.array([0.5, 0.5, 0.5, 0.005]),
        highest=3.5,
        by_holm=np.array([True, False]),
        flagged=np.array([False, False]),
    )
    chance, known = made["rows"]("kgw", {"known": [one]})
    assert chance == "| kgw | 1 | 4 | - | 25.000 | 0.000 | 0.000 | 3.50 | - | - |"
    assert known.startswith("| kgw | 1 | 4 | known | 75.000 | 50.000 | 25.000 | 3.50 | 1 of 2 (")
    assert " | 0 of 2 (0.00 to " in known


def _spread(null: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(null))))


def test_strangers_that_nobody_answers_flag_nobody(made):
    """A kept federation, by the decision as it is today."""
    found = list(made["table"](["nobody-7"], made["KEPT"]))
    assert found[2].startswith("| fictitious | 1 | 720 | - | 0.000 | 0.000 | 0.000 | 0.00 |")
    assert found[-1].endswith("| 0 of 24 (0.00 to 13.80 %) | 0 of 24 (0.00 to 13.80 %) |")
