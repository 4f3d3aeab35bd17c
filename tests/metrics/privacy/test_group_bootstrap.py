from itertools import product

import numpy as np
import pytest

from fedaudit.metrics.privacy.group_bootstrap import tpr_by_groups
from fedaudit.metrics.privacy.roc import tpr_at_fpr


@pytest.mark.parametrize("seed", range(12))
def test_two_groups_a_side_are_drawn_in_sixteen_ways(seed):
    rng = np.random.default_rng(seed)
    sides = [
        {name: rng.integers(0, 6, rng.integers(2, 5)).tolist() for name in names}
        for names in ("ab", "cd")
    ]
    ways = [
        tpr_at_fpr(*([s for name in drawn for s in side[name]]
                     for side, drawn in zip(sides, (first, second), strict=True)), 0.3).value
        for first, second in product(product("ab", repeat=2), product("cd", repeat=2))
    ]  # fmt: skip
    scores = [[s for group in side.values() for s in group] for side in sides]
    names = [[name for name, group in side.items() for _ in group] for side in sides]
    found = tpr_by_groups(*scores, (names[0], names[1]), fpr=0.3, seed=0)
    assert found.value == tpr_at_fpr(*scores, 0.3).value
    # Each way has a probability of 1 in 16, which is more than either tail's 2.5 %.
    assert (found.low, found.high) == (pytest.approx(min(ways)), pytest.approx(max(ways)))


def test_a_threshold_that_hangs_on_one_group_is_not_taken_as_given():
    # A tenth of the members are above all others but the five records of one odd person.
    members, others = [5.0] * 20 + [0.0] * 180, [9.0] * 5 + [0.0] * 195
    people = [str(n // 5) for n in range(200)]
    assert tpr_at_fpr(members, others, 0.01).high < 0.02
    found = tpr_by_groups(members, others, (people, people), fpr=0.01, seed=0)
    # The person is left out of (1 - 1/40) ** 40 = 36 % of the draws.
    assert (found.value, found.low) == (0, 0)
    assert found.high > 0.1


def test_large_sets_are_drawn_in_parts(monkeypatch):
    rng = np.random.default_rng(0)
    members, others = rng.normal(0.5, 1, 60).tolist(), rng.normal(0, 1, 60).tolist()
    names = [str(n // 3) for n in range(60)]
    whole = tpr_by_groups(members, others, (names, names), fpr=0.05, seed=0, draws=4000)
    monkeypatch.setattr("fedaudit.metrics.privacy.group_bootstrap.CELLS", 120 * 7)
    parts = tpr_by_groups(members, others, (names, names), fpr=0.05, seed=0, draws=4000)
    assert (parts.low, parts.high) == (
        pytest.approx(whole.low, abs=0.03),
        pytest.approx(whole.high, abs=0.03),
    )
