from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.extraction.query_budget import ScatteredQuery, limit_plan
from fedaudit.extraction.query_plan import Query, QueryPlan
from fedaudit.metrics.budget_sweep import BudgetCurve


def plan(*copies):
    questions = [Query((index,), count) for index, count in enumerate(copies)]
    return QueryPlan(size=sum(copies), queries=lambda: iter(questions))


def copies(found):
    return {question.prompt[0]: question.copies for question in found.queries()}


def test_the_first_of_an_ordered_plan():
    found = limit_plan(plan(2, 1, 3, 1), 4, seed=0, ordered=True, name="a")
    assert (found.size, copies(found)) == (4, {0: 2, 1: 1, 2: 1})
    assert found.notes == ("a: the first 4 of 7 prefixes were asked.",)


def test_a_budget_that_does_not_bind():
    whole = plan(2, 1)
    assert limit_plan(whole, 0, seed=0, ordered=True, name="a") is whole
    assert copies(limit_plan(whole, 3, seed=0, ordered=False, name="a")) == {0: 2, 1: 1}
    more = limit_plan(whole, 9, seed=0, ordered=False, name="a")
    assert copies(more) == {0: 2, 1: 1}
    assert more.notes == ("a: the budget of 9 prefixes is larger than the set; all 3 were asked.",)
    assert not limit_plan(plan(), 5, seed=0, ordered=False, name="a").notes
    with pytest.raises(ValueError, match="budget"):
        limit_plan(whole, -1, seed=0, ordered=True, name="a")


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=12).flatmap(
        lambda some: st.tuples(st.just(some), st.integers(1, sum(some)))
    ),
    st.integers(0, 9),
    st.booleans(),
)
def test_no_more_than_the_budget_and_no_more_than_there_is(drawn, seed, ordered):
    counts, budget = drawn
    found = limit_plan(plan(*counts), budget, seed=seed, ordered=ordered, name="a")
    asked = copies(found)
    assert sum(asked.values()) == found.size == budget
    assert all(1 <= some <= counts[index] for index, some in asked.items())
    assert list(asked) == sorted(asked)
    assert copies(found) == asked  # it can be gone through again


def places(found):
    return {question.prompt[0]: question.at for question in found.queries()}


COUNTS = st.lists(st.integers(1, 6), min_size=1, max_size=12)


@given(COUNTS, st.integers(0, 9), st.integers(1, 80), st.integers(1, 80))
def test_drawn_budgets_nest(counts, seed, one, other):
    """A smaller budget asks what stands first in the order of a larger one, and nothing else."""
    small, large = sorted((one, other))
    size = sum(counts)

    def drawn(budget):
        return places(limit_plan(plan(*counts), budget, seed=seed, ordered=False, name="a"))

    found = drawn(large)
    assert sorted(p for at in found.values() for p in at) == list(range(min(large, size)))
    assert all(list(at) == sorted(at) for at in found.values())
    first = {prompt: tuple(p for p in at if p < small) for prompt, at in found.items()}
    assert drawn(small) == {prompt: at for prompt, at in first.items() if at}


def test_what_a_prompt_that_stands_apart_needs():
    # Its two prefixes are the second and the sixth of the order. With one sample each they have
    # draws 0 and 1, with two 0 to 1 and 2 to 3, with three 0 to 2 and 3 to 5.
    one = ScatteredQuery((0,), 2, (), (1, 5))
    assert one.budget_curve("x", 0, 3).needed == {"x": [2, 2, 2]}
    assert one.budget_curve("x", 1, 3).needed == {"x": [6, 2, 2]}
    assert one.budget_curve("x", 2, 3).needed == {"x": [inf, 6, 2]}
    assert one.budget_curve("x", 5, 3).needed == {"x": [inf, inf, 6]}


@given(st.integers(1, 6), st.integers(0, 9), st.integers(1, 4), st.data())
def test_prefixes_that_stand_together_are_counted_alike(copies, start, samples, data):
    draw = data.draw(st.integers(0, copies * samples - 1))
    slow = BudgetCurve(samples)
    slow.add("x", start=start, draw=draw, copies=copies)
    apart = ScatteredQuery((0,), copies, (), tuple(range(start, start + copies)))
    assert apart.budget_curve("x", draw, samples).needed == slow.needed


def test_every_occurrence_is_as_likely():
    counts, draws = (1, 3), 4000
    once = sum(
        0 in copies(limit_plan(plan(*counts), 1, seed=seed, ordered=False, name="a"))
        for seed in range(draws)
    )
    assert once / draws == pytest.approx(1 / 4, abs=0.03)  # four standard errors: 0.027
