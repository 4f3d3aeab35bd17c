from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fedaudit.metrics.budget_sweep import BudgetCurve, budget_steps

EVENTS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.integers(0, 6),  # which prompt
        st.integers(0, 11),  # which draw
    ),
    max_size=20,
)
COPIES = (3, 2, 2, 1, 1, 1, 1)


def start(prompt):
    return sum(COPIES[:prompt])


def slowly(events, budget, n):
    """Ask again: each of the first `budget` prefixes n times, equal ones with other draws."""
    found = set()
    for prompt, copies in enumerate(COPIES):
        asked = n * max(0, min(copies, budget - start(prompt)))
        found |= {target for target, at, draw in events if at == prompt and draw < asked}
    return found


def collected(events, samples=4):
    needed = BudgetCurve(samples)
    for target, prompt, draw in events:
        needed.add(target, start=start(prompt), draw=draw, copies=COPIES[prompt])
    return needed


def test_a_budget_by_hand():
    # Two equal prefixes at places 4 and 5, three samples each: draws 0 to 2, then 3 to 5.
    needed = BudgetCurve(3)
    needed.add("x", start=4, draw=3, copies=2)
    assert needed.needed["x"] == [float("inf"), 6, 6]  # one sample each: only draws 0 and 1
    needed.add("x", start=9, draw=0, copies=1)
    assert needed.needed["x"] == [10, 6, 6]
    assert [needed.extracted_targets(b, 3) for b in (5, 6)] == [set(), {"x"}]
    assert needed.extracted_targets(9, 1) == set()


@given(EVENTS, st.integers(0, 12), st.integers(1, 4))
def test_it_is_what_a_smaller_run_finds(events, budget, n):
    possible = [e for e in events if e[2] < 4 * COPIES[e[1]]]
    assert collected(possible).extracted_targets(budget, n) == slowly(possible, budget, n)


@given(EVENTS, st.integers(0, 20), st.randoms(use_true_random=False))
def test_order_and_shards_change_nothing(events, cut, chance):
    mixed = list(events)
    chance.shuffle(mixed)
    one, other = collected(mixed[:cut]), collected(mixed[cut:])
    one.merge(other)
    assert one.needed == collected(events).needed


@given(EVENTS, st.integers(1, 11), st.integers(1, 3))
def test_more_finds_no_less(events, budget, n):
    needed = collected(events)
    assert needed.extracted_targets(budget, n) <= needed.extracted_targets(
        budget + 1, n
    ) & needed.extracted_targets(budget, n + 1)


def test_steps_by_hand():
    assert budget_steps(0) == ()
    assert budget_steps(1) == (1,)
    assert budget_steps(7) == (1, 2, 5, 7)
    assert budget_steps(20) == (1, 2, 5, 10, 20)
    assert budget_steps(353) == (1, 2, 5, 10, 20, 50, 100, 200, 353)


@given(st.integers(1, 10**7))
def test_steps_rise_to_the_end_by_at_most_two_and_a_half(most):
    found = budget_steps(most)
    assert (found[0], found[-1]) == (1, most)
    assert all(a < b <= 2.5 * a for a, b in pairwise(found))
