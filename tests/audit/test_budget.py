import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.audit.budget import limited
from fedaudit.audit.plan import Plan, Question


def plan(*copies):
    questions = [Question((index,), count) for index, count in enumerate(copies)]
    return Plan(size=sum(copies), questions=lambda: iter(questions))


def copies(found):
    return {question.prompt[0]: question.copies for question in found.questions()}


def test_the_first_of_an_ordered_plan():
    found = limited(plan(2, 1, 3, 1), 4, seed=0, ordered=True, name="a")
    assert (found.size, copies(found)) == (4, {0: 2, 1: 1, 2: 1})
    assert found.notes == ("a: the first 4 of 7 prefixes were asked.",)


def test_a_budget_that_does_not_bind():
    whole = plan(2, 1)
    assert limited(whole, 0, seed=0, ordered=True, name="a") is whole
    assert copies(limited(whole, 3, seed=0, ordered=False, name="a")) == {0: 2, 1: 1}
    more = limited(whole, 9, seed=0, ordered=False, name="a")
    assert copies(more) == {0: 2, 1: 1}
    assert more.notes == ("a: the budget of 9 prefixes is larger than the set; all 3 were asked.",)
    assert not limited(plan(), 5, seed=0, ordered=False, name="a").notes
    with pytest.raises(ValueError, match="budget"):
        limited(whole, -1, seed=0, ordered=True, name="a")


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=12).flatmap(
        lambda some: st.tuples(st.just(some), st.integers(1, sum(some)))
    ),
    st.integers(0, 9),
    st.booleans(),
)
def test_no_more_than_the_budget_and_no_more_than_there_is(drawn, seed, ordered):
    counts, budget = drawn
    found = limited(plan(*counts), budget, seed=seed, ordered=ordered, name="a")
    asked = copies(found)
    assert sum(asked.values()) == found.size == budget
    assert all(1 <= some <= counts[index] for index, some in asked.items())
    assert list(asked) == sorted(asked)
    assert copies(found) == asked  # it can be gone through again


def test_every_occurrence_is_as_likely():
    counts, draws = (1, 3), 4000
    once = sum(
        0 in copies(limited(plan(*counts), 1, seed=seed, ordered=False, name="a"))
        for seed in range(draws)
    )
    assert once / draws == pytest.approx(1 / 4, abs=0.03)  # four standard errors: 0.027
