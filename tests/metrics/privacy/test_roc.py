import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.metrics.privacy import roc

NUMBERS = st.lists(st.integers(-5, 5), min_size=1, max_size=12)


def test_area_by_hand():
    # Pairs: 0 beats none; 4 beats 1, 2, 3; 6 and 7 beat all four: 11 of 16.
    found = roc.auc([0, 4, 6, 7], [1, 2, 3, 5])
    assert found.value == 11 / 16
    assert found.low < 11 / 16 < found.high
    assert roc.auc([1, 1], [1, 0]).value == 0.75  # ties count half


def test_an_interval_has_a_width_at_both_ends():
    assert roc.auc([2, 3], [0, 1]).high == 1
    assert 0 < roc.auc([2, 3], [0, 1]).low < 0.7
    assert roc.auc([0, 1], [2, 3]).low == 0


def test_the_interval_of_an_area_holds_what_it_says():
    rng = np.random.default_rng(3)
    truth, held, tries = 0.7601, 0, 400  # of normals one apart: Phi(1 / sqrt 2) = 0.7602
    for _ in range(tries):
        found = roc.auc(rng.normal(1, 1, 40), rng.normal(0, 1, 60))
        held += found.low <= truth <= found.high
    assert held >= 0.92 * tries


def test_true_positives_at_a_false_positive_rate():
    others = list(range(100))
    # 1 % of 100 others is one: members must exceed the second highest, 98.
    found = roc.tpr_at_fpr([98, 98.5, 200, 3], others, 0.01)
    assert found.value == 0.5
    assert found.low == pytest.approx(0.0675860, abs=1e-6)  # Clopper-Pearson of 2 in 4
    assert found.high == pytest.approx(0.9324140, abs=1e-6)


def test_too_few_others_for_a_rate():
    with pytest.raises(ValueError, match=r"99 others have no false positive rate of 0\.01"):
        roc.tpr_at_fpr([1], list(range(99)), 0.01)


def test_balanced_accuracy_by_hand():
    # "5 and above": 2 of 4 in, 1 of 4 out; "4 and above": 3 of 4 and 1 of 4, which is best.
    assert roc.balanced_accuracy([0, 4, 6, 7], [1, 2, 3, 5]) == (0.75 + 0.75) / 2
    # Where no threshold tells them apart, none or all are said to be in.
    assert roc.balanced_accuracy([1, 2], [2, 3]) == 0.5


@given(NUMBERS, NUMBERS)
def test_the_other_way_round_is_the_rest(members, others):
    found, back = roc.auc(members, others), roc.auc(others, members)
    assert found.value + back.value == pytest.approx(1)
    assert found.low + back.high == pytest.approx(1, abs=1e-6)


@given(NUMBERS, NUMBERS)
def test_only_the_order_of_scores_counts(members, others):
    grown = [[x**3 + 7 for x in part] for part in (members, others)]
    assert roc.auc(members, others) == roc.auc(*grown)


@pytest.mark.parametrize(("members", "others"), [([], [1]), ([1], []), ([float("nan")], [1])])
def test_no_scores(members, others):
    with pytest.raises(ValueError, match="Scores are numbers"):
        roc.auc(members, others)


def test_rates_of_rows_are_those_of_records_repeated_as_often():
    scores = np.array([5.0, 4.0, 4.0, 3.0, 2.0, 1.0])
    members = np.array([[1, 0, 2, 1, 0, 0], [0, 3, 0, 1, 1, 0]])
    others = np.array([[1, 1, 0, 0, 1, 2], [0, 2, 1, 0, 0, 1]])
    rates, allowed = roc.rates_above(scores, members, others, 0.5)
    for row in range(2):
        sides = [np.repeat(scores, side[row]).tolist() for side in (members, others)]
        assert rates[row] == roc.tpr_at_fpr(*sides, 0.5).value
    assert allowed.tolist() == [2, 2]
    # By hand: above the third of the first row's others, 2, are all members; none of the second's
    # is above 4, where three members stand with the others.
    assert rates.tolist() == [1, 0]


def test_where_none_of_the_others_is_allowed_members_are_above_all_of_them():
    rates, allowed = roc.rates_above(np.array([3.0, 2.0, 1.0]), np.array([[2, 0, 1]]),
                                 np.array([[0, 4, 0]]), 0.1)  # fmt: skip
    assert (rates.tolist(), allowed.tolist()) == ([2 / 3], [0])
