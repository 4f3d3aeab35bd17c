import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.metrics.privacy.membership_tests import (
    least_p_value,
    permutation_p_values,
    true_positives_p_value,
)


def alone(members, others):
    return [str(n) for n in range(len(members))], [str(n) for n in range(len(others))]


def test_by_hand():
    # Of the 6 ways to choose two of four, one has ranks as high as 3 and 4: 1 in 6.
    found = permutation_p_values([3, 4], [1, 2], (["a", "b"], ["c", "d"]), fpr=0.5, seed=0,
                                 draws=60_000)  # fmt: skip
    assert found.ranks == pytest.approx(1 / 6, abs=0.01)
    # All six have ranks at least as low; turned round, one of them.
    assert found.low_ranks == 1
    turned = permutation_p_values([1, 2], [3, 4], (["a", "b"], ["c", "d"]), fpr=0.5, seed=0)
    assert turned.low_ranks == pytest.approx(1 / 6, abs=0.02)
    # One of two others is allowed above: both members exceed the lower one, in every such choice.
    ways = 0
    for inside in combinations(range(1, 5), 2):
        lower = min(set(range(1, 5)) - set(inside))
        ways += sum(one > lower for one in inside) == 2
    assert found.tail == pytest.approx(ways / 6, abs=0.01)


def test_records_of_one_group_count_together():
    members, others = [9, 9, 9, 9, 1], [0] * 5
    apart = permutation_p_values(members, others, alone(members, others), fpr=0.5, seed=0)
    one = permutation_p_values(members, others, (["a"] * 5, ["b"] * 5), fpr=0.5, seed=0)
    assert apart.ranks < 0.05
    # Two groups can be told apart in two ways.
    assert one.ranks == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(("groups", "ways"), [(2, 6), (3, 20), (4, 70), (5, 252)])
def test_few_groups_have_a_least_p(groups, ways):
    assert least_p_value(groups, groups) == pytest.approx(1 / ways)
    # It is what is found where every member is above every other, but for the draws.
    names = [str(n) for n in range(groups)]
    found = permutation_p_values([2.0] * groups, [1.0] * groups, (names, names), fpr=0.5, seed=0)
    assert found.ranks == pytest.approx(1 / ways, rel=0.4)


def test_many_groups_are_drawn():
    assert least_p_value(20, 20) == 1e-4
    assert least_p_value(1, 300) == pytest.approx(1 / 301)
    # 40,000 groups leave room for 999 draws.
    assert least_p_value(20_000, 20_000) == 1e-3


def test_what_cannot_be_tested():
    few = permutation_p_values([1.0], [0.0] * 9, (["a"], list("bcdefghij")), fpr=0.1, seed=0)
    assert few.tail == 1.0
    with pytest.raises(ValueError, match="members and others"):
        permutation_p_values([], [1.0], ([], ["a"]), fpr=0.5, seed=0)


SCORES = st.lists(st.integers(0, 5), min_size=2, max_size=12)


@given(SCORES, SCORES)
def test_a_p_value_grows_as_members_get_worse(members, others):
    ask = {"groups": alone(members, others), "fpr": 0.5, "seed": 1, "draws": 199}
    found = permutation_p_values(members, others, **ask)
    worse = permutation_p_values([one - 10 for one in members], others, **ask)
    assert 0 < found.ranks <= worse.ranks <= 1
    assert 0 < found.tail <= 1


def test_the_size_under_the_null():
    rng, low = random.Random(1), [0, 0]
    for seed in range(300):
        members, others = ([], []), ([], [])
        for side in (members, others):
            for group in range(8):
                shift = rng.gauss(0, 1)
                for _ in range(rng.randint(1, 6)):
                    side[0].append(shift + rng.gauss(0, 0.5))
                    side[1].append(str(group))
        found = permutation_p_values(members[0], others[0], (members[1], others[1]), fpr=0.1,
                                     seed=seed, draws=199)  # fmt: skip
        low = [n + (p <= 0.05) for n, p in zip(low, (found.ranks, found.tail), strict=True)]
    # 15 of 300 are expected at 5 %; 28 are exceeded once in a thousand times.
    assert max(low) <= 28


@pytest.mark.parametrize(("members", "others", "fpr"), [(3, 4, 0.25), (4, 3, 0.34), (2, 5, 0.5)])
def test_how_often_so_many_members_stand_above_the_threshold_by_chance(members, others, fpr):
    orders = list(combinations(range(members + others), others))  # where the others stand
    for hits in range(members + 1):
        # The (a + 1)-th of the others has as many members before it as its place less a.
        allowed = int(fpr * others)
        by_hand = sum(order[allowed] - allowed >= hits for order in orders) / len(orders)
        assert true_positives_p_value(hits, members, others, fpr) == pytest.approx(by_hand)
