"""What marked clients may hide of each other's mark, where the sets are not known."""

from dataclasses import replace

import numpy as np
import pytest

from fedaudit.api.watermark import Score
from fedaudit.attribution.decision.decision import decide, verdicts
from fedaudit.attribution.scores import RoundScores, Scores


def score(z):
    return Score(z=z, p_value=0.5, n=1, hits=0, chance=0.5)


def one_round(number, shown, rho=0.32):
    """Return a round of four clients at most, by pairs of sets of two others within 0.4."""
    return RoundScores(
        round=number,
        reference={"m": score(0.0)},
        clients={name: {"m": score(z)} for name, z in shown.items()},
        others=2,
        pairs=5,
        limit=0.4,
        strength=dict.fromkeys(shown, rho) if isinstance(rho, float) else rho,
        effective=dict.fromkeys(shown, 1.0),
    )


def scores(*rounds):
    return Scores(
        run="r",
        base="b",
        aggregation="fedit",
        clients=("a", "b", "c", "d", "e", "f"),
        marks={"m": "kgw"},
        dimension=1,
        rounds=rounds,
    )


# b and c have a mark of 14 and hide two fifths of each other's; d holds 0.4 and answers at once.
HIDDEN = {"a": 0.0, "b": 8.4, "c": 8.4, "d": 14.0}


def test_an_innocent_client_may_show_more_than_the_marked_ones_in_a_single_round():
    found = {test.client: test for test in decide(scores(one_round(1, HIDDEN))).tests}
    assert not found["d"].flagged
    assert found["d"].p_value > 0.01
    # Where c shows nothing, b hides nothing: its mark is 8.4, and d has more than that.
    alone = decide(scores(one_round(1, HIDDEN | {"c": 0.0})))
    assert next(test for test in alone.tests if test.client == "d").flagged


def test_a_round_without_two_of_them_is_no_second_one():
    once = scores(one_round(1, HIDDEN))
    further = scores(one_round(1, HIDDEN), one_round(2, {"a": 0.0, "d": 0.0, "e": 0.0, "f": 0.0}))
    assert verdicts(once)["d", "m"].p_value > 0.01
    # Z is 14 / sqrt(2); the first round explains it as before.
    assert verdicts(further)["d", "m"].p_value > 0.01
    again = scores(one_round(1, HIDDEN), one_round(2, HIDDEN))
    assert verdicts(again)["d", "m"].p_value < 0.01


def test_what_members_hide_depends_on_their_own_masks():
    # With a rho of 0.24 coefficients of four are 0.2, 0.2 and -0.4, or the other way round; of
    # 0.32, 0.4, -0.4 and 0: both hide two fifths with 1/9.
    p = {
        rho: verdicts(scores(one_round(1, HIDDEN, {"a": 0.24, "b": rho, "c": rho, "d": 0.24})))
        for rho in (0.24, 0.32)
    }
    assert p[0.24]["d", "m"].p_value < 0.001
    assert p[0.32]["d", "m"].p_value > 0.005


@pytest.mark.parametrize("order", ["dcba", "badc"])
def test_the_order_of_clients_makes_no_difference(order):
    here = one_round(1, HIDDEN)
    mixed = replace(here, clients={name: here.clients[name] for name in order})
    first, second = (verdicts(scores(r)) for r in (here, mixed))
    for pair, verdict in first.items():
        assert np.isclose(second[pair].p_value, verdict.p_value, rtol=1e-9)
