"""Made-up federations: what must come out where chance does nothing, or everything."""

from dataclasses import replace

import numpy as np
import pytest

from fedaudit.api.errors import UsageError
from fedaudit.api.watermark import Score
from fedaudit.attribution import measurements
from fedaudit.attribution.decision import calibration
from fedaudit.attribution.decision.calibration import (
    PowerEstimate,
    calibrate,
    least_found,
    least_share,
)
from fedaudit.attribution.scores import RoundScores, Scores
from fedaudit.metrics.intervals import wilson

CLIENTS = tuple("abcdef")


def score(z=0.0, null=()):
    return Score(z=z, p_value=0.5, n=1, hits=0, chance=0.5, null=null)


def scores(null=(0.0,) * 300, rounds=2, rho=0.8):
    """Return scores whose luck is `null`, and which show nothing else."""
    return Scores(
        run="r",
        base="b",
        aggregation="fedit",
        clients=CLIENTS,
        marks={"m": "kgw"},
        dimension=8,
        rounds=tuple(
            RoundScores(
                round=number,
                reference={"m": score(null=(0.0,) * len(null))},
                clients={who: {"m": score(null=null)} for who in CLIENTS},
                strength=dict.fromkeys(CLIENTS, rho),
                effective=dict.fromkeys(CLIENTS, 3.0),
                others=3,
                pairs=5,
                limit=0.4,
            )
            for number in range(1, rounds + 1)
        ),
    )


def test_without_luck_nobody_is_flagged_and_who_is_strong_enough_always_is():
    lines = calibrate(scores(rho=1e-12), federations=5).points
    # Besides, a usual mark: 14 / 5^(1/2) a round, which are 8.85 after two.
    assert [line.strength for line in lines] == [0, 6, 8, 8.9, 10, 14, 20]
    assert [line.rounds for line in lines] == [None] * 3 + [2] + [None] * 3
    # Six tests at 1 %: Z must exceed 4, and what estimates hold of others is next to nothing.
    assert [line.accused.value for line in lines] == [0.0] * 7
    assert [line.caught and line.caught.value for line in lines] == [None, 1, 1, 1, 1, 1, 1]
    assert least_found(lines) == 6


def test_marks_that_nobody_opened_count_in_simulated_federations_too():
    # Six tests at 1 % are within what the null marks support; 6 (1 + 10^9) are not.
    lines = calibrate(scores(rho=1e-12), federations=5, unopened=10**9).points
    assert [line.caught and line.caught.value for line in lines] == [None, 0, 0, 0, 0, 0, 0]
    assert least_found(lines) is None


def test_an_estimate_that_holds_much_of_a_marked_client_is_flagged_by_the_published_rule():
    lines = calibrate(scores(), federations=10).points
    # A share of 0.4 of a Z of 20 is 8 in one round, by sqrt 2.
    assert lines[-1].published.value > 0.5
    assert lines[-1].accused.value <= 0.1
    assert lines[0].published.value == 0


def test_luck_is_that_of_a_null_mark_in_all_rounds_and_of_all_clients():
    null = tuple(float(n) for n in range(300))
    made, marked, _ = calibration._federation(scores(null), 0.0, np.random.default_rng(1), CLIENTS)
    assert marked == ""
    found = [own["m"] for one in made.rounds for own in one.clients.values()]
    [luck] = {one.z for one in found}
    assert luck in null
    assert {one.null for one in found} == {tuple(value for value in null if value != luck)}


def test_a_marked_client_adds_what_the_others_estimates_hold():
    made, marked, shares = calibration._federation(
        scores(), 20.0, np.random.default_rng(1), CLIENTS
    )
    for one in made.rounds:
        held = shares[one.round]
        z = {who: own["m"].z for who, own in one.clients.items()}
        assert z.pop(marked) == pytest.approx(20 / 2**0.5)
        # Coefficients are multiples of 1/5, 0.4 at most.
        assert {round(value / (20 / 2**0.5) * 5, 6) for value in z.values()} <= {-2, -1, 0, 1, 2}
        for who, value in z.items():
            assert value == pytest.approx(20 / 2**0.5 * held[who][marked])


def test_whoever_knows_the_sets_is_given_what_was_drawn():
    lines = calibrate(scores(rho=0.8), federations=8, sets_known=True).points
    assert [line.accused.value for line in lines] == [0.0] * 7
    assert lines[-1].caught.value == 1
    # Chance is no different, so the paper's rule flags whom it flags without the sets.
    plain = calibrate(scores(rho=0.8), federations=8).points
    assert [line.published for line in lines] == [line.published for line in plain]


def test_it_is_the_same_again_and_other_seeds_are_others():
    some = [float(n % 7) - 3 for n in range(300)]
    first = calibrate(scores(tuple(some)), federations=3, seed=1)
    assert calibrate(scores(tuple(some)), federations=3, seed=1) == first
    assert calibrate(scores(tuple(some)), federations=3, seed=2) != first


def test_without_null_marks_luck_is_standard_normal():
    lines = calibrate(scores(null=(), rho=1e-12), federations=30).points
    assert lines[0].accused.value <= 0.1
    assert lines[-1].caught.value == 1


def test_the_least_that_is_found_is_one_from_which_on_all_are():
    def line(strength, share):
        caught = wilson(10 * share, 10) if strength else None
        return PowerEstimate(
            strength=strength, accused=wilson(0, 9), published=wilson(0, 9), caught=caught
        )

    assert least_found([line(0, 0), line(6, 0.9), line(8, 0.5), line(10, 0.9), line(14, 1)]) == 10
    assert least_found([line(0, 0), line(6, 0.2)]) is None


def test_clients_are_counted_in_the_federations_in_which_they_are_innocent():
    made = calibrate(scores(rho=1e-12), federations=4)
    assert sorted(made.accused) == list(CLIENTS)
    assert {rate.value for rate in made.accused.values()} == {0.0}
    # Luck alone, and a level at which a third of all federations has somebody who is flagged.
    loose = calibrate(scores(null=(), rho=1e-12), federations=20, threshold=0.01, alpha=0.4)
    least = sum(20 * point.accused.value for point in loose.points) / 120
    # Whoever is flagged counts in every federation in which somebody is; each is innocent in fewer.
    assert sum(rate.value for rate in loose.accused.values()) >= least > 0


def late(*absent, rounds=5):
    """Return scores in which the clients `absent` took part in the last round alone."""
    made = scores(rho=1e-12, rounds=rounds)

    def without(table):
        return {who: value for who, value in table.items() if who not in absent}

    early = [
        replace(
            one,
            clients=without(one.clients),
            strength=without(one.strength),
            effective=without(one.effective),
        )
        for one in made.rounds[:-1]
    ]
    return replace(made, rounds=(*early, made.rounds[-1]))


def test_clients_that_joined_late_have_a_power_of_their_own():
    # 6.26 after one round, 14 after five; a threshold of 8 lets the first go and finds the second.
    lines = calibrate(late("e", "f"), federations=20, threshold=8.0).points
    usual = {line.rounds: line for line in lines if line.rounds}
    assert {n: (line.strength, line.partial) for n, line in usual.items()} == {
        1: (6.3, True),
        5: (14.0, True),
    }
    assert {n: line.caught.value for n, line in usual.items()} == {1: 0.0, 5: 1.0}
    # 14 is simulated for all clients as well, and only that counts as a strength that is found.
    assert [line.strength for line in lines] == [0, 6, 6.3, 8, 10, 14, 14, 20]
    assert least_found(lines) == 10
    rows = list(measurements.calibration_rows(calibrate(late("e"), federations=9, threshold=8.0)))
    found = [row for row in rows if row.metric == "marked_found" and "rounds" in row.scope]
    assert [row.scope["rounds"] for row in found] == [1, 5]


def test_the_marked_client_is_one_of_those_that_took_part_so_often():
    drawn = {
        calibration._federation(late("e", "f"), 6.3, np.random.default_rng(n), ("e", "f"))[1]
        for n in range(20)
    }
    assert drawn == {"e", "f"}


def test_the_least_share_by_hand():
    # Z 12 at a share of 0.2: Z 6 at 0.1, if Z grows with the share.
    assert least_share(6, 12.0, 0.2) == pytest.approx(0.1)
    assert least_share(14, 6.0, 0.5) is None
    assert least_share(6, 0.0, 0.2) is None


def test_nothing_is_made_up_of_nothing():
    with pytest.raises(UsageError, match="0 federations tell nothing"):
        calibrate(scores(), federations=0)
    with pytest.raises(UsageError, match="no scores of any client"):
        calibrate(replace(scores(), rounds=()))
