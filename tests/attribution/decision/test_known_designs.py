"""What each client adds, from what the server asked for: plans, logs, weights."""

import json
import math

import handmade
import numpy as np
import pytest

from fedaudit.api.errors import InputError
from fedaudit.api.watermark import Score
from fedaudit.attribution.decision.known_designs import (
    contribution_rows,
    estimate_shares,
    read_log,
)
from fedaudit.attribution.scores import RoundScores, Scores
from fedaudit.attribution.server import estimation, sum_plan, sums_log
from fedaudit.federation.folder import open_federation
from fedaudit.metrics.attribution.subset_design import Combination

SIZES = [120.0, 132.0, 125.0, 140.0, 128.0, 135.0, 122.0, 130.0]
TRUE = {f"c{n}": float(n % 3) for n in range(8)}
"""What each client adds to a round's score."""


def score(z, null=()):
    return Score(z=z, p_value=0.5, n=1, hits=1, chance=0.5, null=tuple(null))


def scores(rounds, clients, weights=None, run="r"):
    return Scores(
        run=run,
        base="b",
        aggregation="fedit",
        clients=tuple(clients),
        marks={"m": "kgw"},
        dimension=10,
        weights=weights or {},
        rounds=tuple(rounds),
    )


def scored(number, held, true, start=3.0):
    """Return a round whose estimates answer for all that they hold, without any chance."""
    own = {
        target: {"m": score(start + sum(by * true[who] for who, by in row.items()))}
        for target, row in held.items()
    }
    return RoundScores(round=number, reference={"m": score(start)}, clients=own)


def rows_of(all_scores, estimates, weights):
    flagged = {client: {"m"} for r in all_scores.rounds for client in r.clients}
    return contribution_rows(all_scores, estimate_shares(all_scores, estimates, weights), flagged)


def holding(combinations, weights):
    """Return what estimates hold, from the sums' coefficients and nothing else."""
    found = {}
    for one in combinations:
        row = dict.fromkeys(weights, 0.0)
        for members, by in one.coefficients.items():
            for who in members:
                row[who] += by * weights[who] / weights[one.target]
        found[one.target] = row
    return found


def test_by_hand():
    # a's estimate holds half of b's update, b's misses half of a's: sa = a + b / 2, sb = b - a / 2,
    # so a = (sa - sb / 2) / 1.25 and b = (sb + sa / 2) / 1.25, with scores 5 and 2: a 3.2, b 3.6.
    estimates = [
        Combination("a", {("a",): 1.0, ("b",): 0.5}),
        Combination("b", {("b",): 1.0, ("a",): -0.5}),
    ]
    own = RoundScores(
        round=4,
        reference={"m": score(1.0)},
        clients={"a": {"m": score(6.0)}, "b": {"m": score(3.0)}},
    )
    first, second = rows_of(scores([own], ["a", "b", "c"]), {4: estimates}, {"a": 1.0, "b": 1.0})
    assert (first.value, second.value) == pytest.approx((3.2, 3.6))
    assert (first.scope, first.n) == ({"client": "a", "mark": "m"}, 1)
    # The variance of a is (1 + 1/4) / 1.25**2 = 0.8.
    # Two clients have an interval each: the normal distribution has 1.25 % above 2.241403.
    assert first.high - first.value == pytest.approx(2.241403 * math.sqrt(0.8))


@pytest.mark.parametrize(
    "protocol_config",
    [{"protocol": "pairs"}, {"protocol": "shared", "limit": 1.0, "hidden": 0.0}],
)
@pytest.mark.parametrize("weighting", ["equal", "size"])
def test_the_log_gives_what_the_plan_does_and_both_the_truth(tmp_path, protocol_config, weighting):
    made = handmade.write(tmp_path / "fed", clients=8, weights=SIZES, rounds=3, size=20)
    plan = sum_plan.draw_sum_plan(
        open_federation(made.path),
        sum_plan.ProtocolConfig(seed=1, weights=weighting, **protocol_config),
    )
    log = tmp_path / "log.json"
    found, _ = estimation.estimate(plan, tmp_path / "est", log)
    combinations = {number: one.combinations for number, one in plan.designs.items()}
    rounds = [
        scored(number, holding(own, plan.weights), TRUE) for number, own in combinations.items()
    ]
    all_scores = scores(rounds, made.names, found.shares, found.run)
    rows = list(rows_of(all_scores, combinations, plan.weights))
    told = {row.scope["client"]: row.value for row in rows if row.value is not None}
    assert len(rows) == 8
    assert told
    for who, value in told.items():
        assert value == pytest.approx(math.sqrt(3) * TRUE[who], abs=1e-6)
    logged = list(rows_of(all_scores, read_log(log, found.run), plan.weights))
    for one, other in zip(rows, logged, strict=True):
        assert (one.scope, one.n, one.reason) == (other.scope, other.n, other.reason)
        np.testing.assert_allclose(
            [one.value or 0, one.low or 0], [other.value or 0, other.low or 0], atol=1e-9
        )


def test_null_marks_say_how_far_chance_goes():
    # Each estimate is its client's own, so the null marks' root mean square is the spread: 2.
    own = RoundScores(
        round=1,
        reference={"m": score(0.0, (1.0, 1.0))},
        clients={"a": {"m": score(5.0, (3.0, -1.0))}},
    )
    [row] = rows_of(scores([own], ["a"]), {1: [Combination("a", {("a",): 1.0})]}, {})
    # Student's t with two degrees of freedom has 2.5 % above 4.302653.
    assert (row.value, row.high) == pytest.approx((5.0, 5 + 2 * 4.302653))


def test_clients_that_are_not_flagged_have_none():
    estimates = {1: [Combination(name, {(name,): 1.0}) for name in "ab"]}
    own = RoundScores(
        round=1,
        reference={"m": score(0.0)},
        clients={"a": {"m": score(9.0)}, "b": {"m": score(5.0)}},
    )
    all_scores = scores([own], ["a", "b"])
    shares = estimate_shares(all_scores, estimates, {})
    [row] = contribution_rows(all_scores, shares, {"a": {"m"}, "b": {"n"}})
    assert (row.scope["client"], row.value) == ("a", 9.0)


def test_nothing_was_scored():
    assert list(rows_of(scores([], ["a"]), {}, {})) == []


def test_what_the_log_lacks_is_named(tmp_path):
    own = scored(2, {"a": {"a": 1.0}}, {"a": 1.0})
    with pytest.raises(InputError, match=r"no sets of round 2, which was scored\."):
        list(rows_of(scores([own], ["a"]), {1: []}, {}))
    with pytest.raises(InputError, match=r"no estimate of a in round 2\."):
        list(rows_of(scores([own], ["a"]), {2: []}, {}))
    design = {"target": "a", "include": [["a"]], "exclude": [[]]}
    entry = {"round": 1, "protocol": "pairs", "queries": 2, "designs": [design]}
    log = tmp_path / "log.json"
    sums_log.write([entry, {**entry, "designs": []}], log, "r")
    with pytest.raises(InputError, match="two designs of round 1"):
        read_log(log, "r")
    for broken in ([{"target": "a"}], [3], {"sets": 1}):
        sums_log.write([{**entry, "designs": broken}], log, "r")
        with pytest.raises(InputError, match="the sets of round 1 cannot be read"):
            read_log(log, "r")
    log.write_text(json.dumps({"run": "other", "rounds": []}))
    with pytest.raises(InputError, match="log of another run"):
        read_log(log, "r")
    with pytest.raises(InputError, match=r"no file .*none.json"):
        read_log(tmp_path / "none.json", "r")
