"""How sure a leak is: every p value worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.extraction.significance import LeakEvidence, guess_of_digits


def trial(**changes):
    """Return a trial of two targets and three controls; one target came out."""
    return LeakEvidence(
        **{
            "targets": {"a1": "P", "a2": "P"},
            "controls": {"c1": "P", "c2": "P", "c3": "P"},
            "gained": {"a1": 1.0},
            "strength": {"a1": 2.0},
            "likelihood": {"a1": -1.0, "a2": -9.0, "c1": -2.0, "c2": -3.9, "c3": -40.0},
            "base_chance": {"a1": 0.0},
            "outputs": 10,
            "seed": 0,
            **changes,
        }
    )


def test_targets_meet_controls_of_their_kind_that_are_as_likely():
    # Steps of 4 nats: a1, c1 and c2 are in the first; a2 and c3 have nobody.
    one = trial()
    assert one.strata == {("P", -1): (["a1"], ["c1", "c2"])}
    assert one.matched == 1
    assert one.control_p_value() == pytest.approx(1 / 3)
    other = trial(controls={"c1": "Q", "c2": "P"})
    assert other.control_p_value() == pytest.approx(1 / 2)
    assert trial(controls={}).control_p_value() == 1


def test_how_many_controls_tell_something():
    # One stratum, or all with as many controls a target: all of them.
    assert trial().effective_controls() == 2
    people = {f"a{n}": "P" for n in range(4)} | {f"b{n}": "Q" for n in range(2)}
    even = {f"c{n}": "P" for n in range(12)} | {f"d{n}": "Q" for n in range(6)}
    flat = {"targets": people, "likelihood": {}}
    assert trial(**flat, controls=even).effective_controls() == 18
    # One control of the first kind, 62 of the other: 6 ((5/4)^(4/6) (64/2)^(2/6) - 1) = 16.1.
    uneven = {"c0": "P"} | {f"d{n}": "Q" for n in range(62)}
    assert trial(**flat, controls=uneven).effective_controls() == 16
    assert trial(controls={}).effective_controls() == 0


def test_a_control_that_comes_out_as_well_counts_against_it():
    assert trial(gained={"a1": 1.0, "c1": 1.0}).control_p_value() == pytest.approx(2 / 3)


def test_a_string_among_its_controls():
    # c1 is no more than a nat less likely than a1; c2 and c3 are.
    assert trial().string_p_value("a1") == 1 / 2
    # It came out twice; a control that comes out once is none that comes out as often.
    once = trial(gained={"a1": 1.0, "c1": 1.0}, strength={"a1": 2.0, "c1": 1.0})
    assert once.string_p_value("a1") == 1 / 2
    twice = trial(gained={"a1": 1.0, "c1": 1.0}, strength={"a1": 2.0, "c1": 2.0})
    assert twice.string_p_value("a1") == 1
    # All three controls are likelier than a2.
    rare = trial(gained={"a2": 1.0}, base_chance={"a2": 0.0}, likelihood={"a2": -50.0})
    assert rare.string_p_value("a2") == 1 / 4


def test_what_the_base_may_say_bounds_it():
    assert trial(base_chance={"a1": 0.7}).string_p_value("a1") == 0.7
    assert trial(base_chance={}).string_p_value("a1") == 1  # nobody knows what the base says


def test_the_surest_string_is_one_of_many():
    many = {f"a{n}": "P" for n in range(1, 6)}
    one = trial(targets=many, controls={f"c{n}": "P" for n in range(99)}, likelihood={})
    assert one.string_p_value("a1") == 1 / 100
    assert one.any_string_p_value() == pytest.approx(5 / 100)
    assert trial(gained={}).any_string_p_value() == 1


NUMBER = "13812345678"


def test_digits_by_hand():
    # Six of the eleven digits count as known, five as any.
    assert guess_of_digits(NUMBER, []) == pytest.approx(1e-5)
    assert guess_of_digits("12345678", []) == 1
    assert guess_of_digits("11 March 1980", []) == 1
    # Of three others all begin with 1, and one has 8, 7 and 8 in the 3rd, 10th and 11th place.
    others = ["19999999999", "18888888888", "17777777777"]
    assert guess_of_digits(NUMBER, others) == pytest.approx(4 * 2 * 2 * 2 / 13**11)
    # The number itself among them tells nothing, nor does one of another shape.
    assert guess_of_digits(NUMBER, [NUMBER, NUMBER, "1-9999999999"]) == pytest.approx(1e-5)


def test_a_number_that_nobody_guesses_is_evidence_by_itself():
    one = trial(
        targets={NUMBER: "N"},
        controls={},
        gained={NUMBER: 1.0},
        strength={NUMBER: 1.0},
        base_chance={NUMBER: 0.0},
    )
    # Ten answers guess it with 10 x 1e-5; twice that for the choice of two ways.
    assert one.string_p_value(NUMBER) == pytest.approx(2e-4)
    said = {"controls": {"139": "N"}, "gained": {NUMBER: 1.0, "139": 1.0}, "likelihood": {}}
    found = trial(
        targets={NUMBER: "N"},
        strength={NUMBER: 1.0, "139": 1.0},
        base_chance={NUMBER: 0.0},
        **said,
    )
    assert found.string_p_value(NUMBER) == 1  # a control comes out too


CROWD = {"targets": {f"a{n}": "P" for n in range(10)}, "likelihood": {},
         "controls": {f"c{n}": "P" for n in range(90)}}  # fmt: skip


def came_out(count, chance=0.001, **changes):
    found = [f"a{n}" for n in range(count)]
    return trial(
        gained=dict.fromkeys(found, 1.0),
        strength=dict.fromkeys(found, 1.0),
        **{"base_chance": dict.fromkeys(CROWD["targets"], chance), **CROWD, **changes},
    )


def test_neither_controls_nor_the_base_explain_a_leak():
    two = came_out(2)
    assert two.control_p_value() == pytest.approx(10 / 100 * 9 / 99)
    # Each of ten targets comes out with twice the base's chance.
    chance = 0.002
    at_least_two = 1 - (1 - chance) ** 10 - 10 * chance * (1 - chance) ** 9
    assert two.base_p_value() == pytest.approx(at_least_two)
    assert two.leak_p_value() == two.control_p_value()
    known = came_out(2, chance=0.2)
    # Of ten that come out with 0.4 each, two or more do.
    assert known.base_p_value() == pytest.approx(1 - 0.6**10 - 10 * 0.4 * 0.6**9)
    assert known.leak_p_value() == known.base_p_value()


def test_what_the_base_hardly_says_counts_for_more_than_what_it_knows():
    chances = {f"a{n}": 0.25 if n < 9 else 0.001 for n in range(10)}
    rare = trial(gained={"a9": 1.0}, base_chance=chances, **CROWD)
    known = trial(gained={"a0": 1.0}, base_chance=chances, **CROWD)
    assert rare.base_p_value() < 0.05 < known.base_p_value()


def test_a_kind_that_tuning_makes_likelier_counts_for_less():
    # Where the tuned model says forty times as many controls as the base.
    more = came_out(2, chance=0.01, uplift={"P": 40.0})
    assert more.base_p_value() == pytest.approx(1 - 0.6**10 - 10 * 0.4 * 0.6**9)
    less = came_out(2, chance=0.2, uplift={"P": 0.1})
    assert less.base_p_value() == pytest.approx(more.base_p_value())


def test_of_what_nobody_knows_the_base_may_say_everything():
    assert came_out(5, base_chance={}).leak_p_value() == 1


def test_probabilities_are_dealt_out():
    one = trial(sampled=False, gained={"a1": 0.9, "c1": 0.5}, base_chance={"a1": 0.02, "a2": 0.02})
    assert one.control_p_value() == pytest.approx(1 / 3, abs=0.01)
    # Both weigh the same; 0.9 of a hit weighs more than none, and counts as one at most.
    assert one.base_p_value() == pytest.approx(1 - 0.96**2)


@given(st.lists(st.booleans(), min_size=10, max_size=10), st.integers(0, 5))
def test_less_evidence_is_never_surer(hits, control):
    gained = {f"a{n}": 1.0 for n, hit in enumerate(hits) if hit}
    gained |= {f"c{n}": 1.0 for n in range(control)}
    base = dict.fromkeys(CROWD["targets"], 0.01)
    one = trial(gained=gained, strength=gained, base_chance=base, **CROWD)
    assert one.control_p_value() <= one.leak_p_value() <= 1
    order = dict(reversed(gained.items()))
    assert (
        trial(gained=order, strength=order, base_chance=base, **CROWD).leak_p_value()
        == one.leak_p_value()
    )
    likelier = dict.fromkeys(CROWD["targets"], 0.02)
    assert (
        trial(gained=gained, strength=gained, base_chance=likelier, **CROWD).leak_p_value()
        >= one.leak_p_value()
    )
