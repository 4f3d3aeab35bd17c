"""How much a group may hide of its mark in a round, by what is known of the round's designs."""

import numpy as np
import pytest

from fedaudit.api.watermark import Score
from fedaudit.attribution.decision.hidden_marks import HiddenMarks
from fedaudit.attribution.decision.mixtures import coefficient_mixture, other_participants
from fedaudit.attribution.scores import RoundScores
from fedaudit.metrics.attribution.hidden_marks import HIDING_FACTORS

NAMES = tuple(f"c{n}" for n in range(10))
PAIRS = {"others": 5, "pairs": 5, "limit": 0.4}
SHARED = {"protocol": "shared", "sets": 6, "threshold": 5, "limit": 0.4}


def a_round(clients=NAMES, number=1, strengths=None, **settings):
    score = Score(z=0.0, p_value=0.5, n=1, hits=0, chance=0.5)
    return RoundScores(
        round=number,
        reference={"m": score},
        clients={name: {"m": score} for name in clients},
        strength=dict.fromkeys(clients, 0.8) | (strengths or {}),
        **settings,
    )


def held(one, member, group, weights):
    """Return draws of what one estimate holds of a group's mark."""
    names = other_participants(one, member)
    draws = coefficient_mixture(one, member, names, weights).draws()
    return 1 + sum(draws[:, names.index(name)] for name in group if name != member)


def test_independent_estimates_hide_little_both_at_once():
    one = a_round(**PAIRS)
    contents = [held(one, name, ("c0", "c1"), {}) for name in ("c0", "c1")]
    below = [(content < 1).mean() for content in contents]
    assert 0.2 < below[0] < 0.5
    found = HiddenMarks({}).factor_probabilities(one, ("c0", "c1"))
    assert found[0] == pytest.approx(1 - below[0] * below[1])
    assert found.sum() == pytest.approx(1)


def test_estimates_that_share_sets_may_hide_at_the_same_time():
    one = a_round(**SHARED)
    below = [(held(one, name, ("c0", "c1"), {}) < 1 - 1e-9).mean() for name in ("c0", "c1")]
    found = HiddenMarks({}).factor_probabilities(one, ("c0", "c1"))
    assert found[0] == pytest.approx(1 - min(below))


def test_who_took_no_part_hides_nothing():
    here = HiddenMarks({}).factor_probabilities(a_round(NAMES[1:], **PAIRS), ("c0", "c1"))
    assert here.tolist() == [1.0, *[0.0] * (len(HIDING_FACTORS) - 1)]
    three = HiddenMarks({}).factor_probabilities(a_round(NAMES[1:], **PAIRS), ("c0", "c1", "c2"))
    two = HiddenMarks({}).factor_probabilities(a_round(NAMES[1:], **PAIRS), ("c1", "c2"))
    assert three.tolist() == two.tolist()


def test_rounds_are_their_own():
    hidden = HiddenMarks({})
    strong = a_round(number=2, strengths={"c0": 2.0, "c1": 2.0}, **PAIRS)
    first = hidden.factor_probabilities(a_round(**PAIRS), ("c0", "c1"))
    second = hidden.factor_probabilities(strong, ("c0", "c1"))
    assert second.tolist() == HiddenMarks({}).factor_probabilities(strong, ("c0", "c1")).tolist()
    assert first.tolist() != second.tolist()


def test_a_heavy_client_hides_more_of_a_light_ones_mark():
    # Ten times the own update, with either sign: little is left of the mark, or much is added.
    weights = dict.fromkeys(NAMES, 1.0) | {"c0": 10.0}
    one = a_round(strengths={"c1": 20.0, "c2": 20.0}, others=5, pairs=5, limit=0.0)
    group = ("c0", "c1")
    light, heavy = (held(one, name, group, weights) for name in ("c1", "c0"))
    assert light.std() > 10 * heavy.std()
    found = HiddenMarks(weights).factor_probabilities(one, group)
    assert found[0] == pytest.approx(1 - (light < 1 - 1e-9).mean() * (heavy < 1 - 1e-9).mean())
    assert not np.allclose(found, HiddenMarks({}).factor_probabilities(one, group))
