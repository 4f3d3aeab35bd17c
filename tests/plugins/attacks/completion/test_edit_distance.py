import pytest
from fedaudit_plugins.attacks.completion.pairs import edit_distance, sample_deviation
from hypothesis import given
from hypothesis import strategies as st

TOKENS = st.lists(st.integers(0, 5) | st.integers(0, 150_000), max_size=12)


def slow(first, second):
    """Wagner and Fischer's table, by the definition."""
    if not first or not second:
        return len(first) + len(second)
    kept = slow(first[1:], second[1:])
    if first[0] == second[0]:
        return kept
    return 1 + min(kept, slow(first[1:], second), slow(first, second[1:]))


@given(st.lists(st.integers(0, 3), max_size=6), st.lists(st.integers(0, 3), max_size=6))
def test_it_is_what_the_definition_says(first, second):
    assert edit_distance(first, second) == slow(first, second)


@given(TOKENS, TOKENS, TOKENS)
def test_it_is_a_metric(a, b, c):
    assert (edit_distance(a, b) == 0) == (a == b)
    assert edit_distance(a, b) == edit_distance(b, a)
    assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)
    assert abs(len(a) - len(b)) <= edit_distance(a, b) <= max(len(a), len(b))


def test_by_hand():
    assert edit_distance((1, 2, 3, 4), (1, 9, 3)) == 2  # one substituted, one deleted
    assert edit_distance((), (7, 7)) == 2
    assert edit_distance((65,), (97,)) == 1


def test_deviation_by_hand():
    # mean 3, squares 4 + 0 + 4 = 8, over 2
    assert sample_deviation([1, 3, 5]) == pytest.approx(2.0)
    assert sample_deviation([4]) is None
    assert sample_deviation([]) is None
    assert sample_deviation([7, 7]) == 0
