"""FLDetector finds who is inconsistent, and nobody where all are alike."""

import numpy as np
import pytest
from baseline_trial import flags, seen, trial, vector
from fedaudit_plugins.attribution.fldetector import mean_scores
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.api.errors import UsageError
from fedaudit.config.registry import create

FEW = {"references": 3}
"""So few random sets to compare with are enough where groups are plain to see."""
DETECTOR = create("attribution", "fldetector", FEW)


def honest(clients=8, rounds=6, size=10):
    """Return rounds of clients that each descend a bowl of their own, of one curvature."""
    rng = np.random.default_rng(0)
    goals = {f"c{i}": rng.normal(size=size) for i in range(clients)}
    noise = {client: rng.normal(size=(rounds, size)) / 50 for client in goals}
    place, found = np.zeros(size), []
    for t in range(rounds):
        found.append({c: 0.3 * (goal - place) + noise[c][t] for c, goal in goals.items()})
        place = place + np.mean(list(found[-1].values()), axis=0)
    return found


def attributed(tables, method=DETECTOR, **given):
    rounds = [
        seen(t, {client: vector(*values) for client, values in table.items()})
        for t, table in enumerate(tables)
    ]
    return method.attribute(trial(rounds, **given))


def planted(*names):
    """Return honest rounds but for some who send something else each round."""
    rng = np.random.default_rng(5)
    tables = honest()
    for table in tables:
        for name in names:
            table[name] = table[name] + rng.normal(size=10)
    return tables


@pytest.mark.parametrize("names", [("c3",), ("c0", "c5", "c7")])
def test_who_sends_something_else_each_round_is_flagged(names):
    found = flags(attributed(planted(*names)))
    assert {client for client, flagged in found.items() if flagged} == set(names)


def test_a_poisoned_goal_followed_honestly_is_not():
    # This is a client that trains on watermarked documents: another goal, but consistent.
    tables = honest()
    for table in tables:
        table["c2"] = table["c2"] + 0.5
    assert not any(flags(attributed(tables)).values())


def test_identical_clients_flag_nobody():
    tables = [{f"c{i}": table["c0"] for i in range(10)} for table in honest()]
    found = attributed(tables)
    assert len(found.clients) == 10
    assert not any(flags(found).values())
    still = [{f"c{i}": np.zeros(4) for i in range(5)}] * 4
    assert not any(flags(attributed(still)).values())


def test_only_the_last_rounds_of_the_window_count():
    tables = planted("c3")
    tables += [tables[-1]] * 3  # from then on, everybody repeats himself
    wide, narrow = (create("attribution", "fldetector", {"window": n, **FEW}) for n in (9, 2))
    assert [one.client for one in attributed(tables, wide).clients if one.flagged] == ["c3"]
    assert not any(flags(attributed(tables, narrow)).values())


def test_rounds_weigh_alike():
    far = [{"a": 1.0, "b": 3.0}, {"a": 2.0, "b": 2.0, "c": 5.0}, {"b": 4.0}]
    # By hand: 1/2 and 3/2; 2/3, 2/3 and 5/3; 1.
    assert mean_scores(far, 3) == {
        "a": pytest.approx((1 / 2 + 2 / 3) / 2),
        "b": pytest.approx((3 / 2 + 2 / 3 + 1) / 3),
        "c": pytest.approx(5 / 3),
    }
    assert mean_scores(far, 1) == {"b": 1.0}
    assert mean_scores([{"a": 0.0, "b": 0.0}], 1) == {"a": 1.0, "b": 1.0}


def test_what_cannot_be_predicted_is_said_and_not_flagged():
    found = attributed(planted("c3")[:2])  # no round before the third is predicted
    assert not any(flags(found).values())
    assert any("no update of 8 of 8 clients could be predicted" in said for said in found.limits)
    assert any("0 scores are too few" in said for said in found.limits)
    late = planted("c3")
    late[-1]["new"] = np.ones(10) * 99
    found = attributed(late)
    assert flags(found)["c3"]
    assert not flags(found)["new"]
    assert any("no update of 1 of 9 clients" in said for said in found.limits)


def test_it_says_that_it_breaks_secure_aggregation():
    found = attributed(honest())
    assert DETECTOR.plaintext
    assert len(found.limits) == 1
    assert "secure aggregation does not allow" in found.limits[0]
    assert {(one.z, one.p_value) for one in found.clients} == {(None, None)}


@settings(deadline=None, max_examples=3)
@given(st.permutations([f"c{i}" for i in range(8)]), st.integers(0, 3), st.floats(0.1, 10))
def test_neither_order_nor_scale_changes_a_flag(order, seed, scale):
    tables = planted("c1", "c6")
    mixed = [{client: scale * table[client] for client in order} for table in tables]
    assert flags(attributed(mixed, seed=seed)) == {f"c{i}": i in (1, 6) for i in range(8)}


@pytest.mark.parametrize("option", ["history", "window", "references", "clusters"])
def test_options_out_of_range_are_refused(option):
    with pytest.raises(UsageError, match="at least"):
        create("attribution", "fldetector", {option: 0})
