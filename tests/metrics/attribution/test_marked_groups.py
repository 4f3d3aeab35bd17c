"""Who may be marked: groups by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.metrics.attribution import marked_groups
from fedaudit.metrics.attribution.marked_groups import (
    MarkEvidence,
    candidate_clients,
    candidates_with_known_sets,
    enumerate_groups,
    nested_groups,
)


def shown(z, spread=1.0, rounds=4):
    return MarkEvidence(z, spread, rounds)


def test_what_a_z_shows_beyond_chance():
    assert shown(5.0, 3.0).signal_share == pytest.approx(0.8)
    assert shown(3.0, 3.0).signal_share == shown(0.0).signal_share == shown(-9.0).signal_share == 0
    # Z of 6 over 4 rounds is 3 a round; with two standard deviations of 1.5 more, 4.5.
    assert (shown(6.0, 1.5).mean, shown(6.0, 1.5).largest) == (3.0, 4.5)
    assert shown(-6.0).mean == 0


def test_who_shows_enough_may_be_marked():
    table = {"a": shown(14.0), "b": shown(6.0), "c": shown(4.0), "d": shown(1.9), "e": shown(-3.0)}
    # rho 0.64 over four rounds: a marked client keeps 1 - 1.25 * 0.4 = half of what it shows. Half
    # of 14 is within two deviations of 6, not of 4.
    assert candidate_clients(table, 0.64) == ("a", "b")
    # Where somebody's estimate holds twice an update, a client of 3.5 may be the marked one.
    assert candidate_clients(table, 0.64, largest_share=2.0) == ("a", "b", "c")
    # In one round of rho 0.64 or more everything may be hidden: one deviation is enough.
    once = {name: shown(one.z, rounds=1) for name, one in table.items()}
    assert candidate_clients(once, 0.64) == ("a", "b", "c", "d")
    assert candidate_clients({"e": shown(-3.0)}, 0.64) == ()


def test_many_others_hide_no_more_than_nine():
    # rho is 1.6 in four rounds: 1 - 1.25 * 0.63 is a fifth, so that a client may show a fifth of
    # the strongest's 14, and half of two deviations more.
    table = {"a": shown(14.0), "b": shown(6.0), "c": shown(4.0), "d": shown(1.5)}
    assert candidate_clients(table, 1.6) == ("a", "b", "c", "d")
    ten, many = (table | {f"{n}": shown(-1.0) for n in range(more)} for more in (6, 42))
    assert candidates_with_known_sets(ten, 1.6, [np.zeros((10, 10))]) == ("a", "b", "c", "d")
    # Of 45 others' leak nine make a fifth: 1 - 1.25 * 0.28, more than a half.
    assert candidates_with_known_sets(many, 1.6, [np.zeros((46, 46))]) == ("a", "b")
    # An estimate that holds twice an update shows it twice.
    twice = np.zeros((46, 46))
    twice[0, 1] = -2.0
    assert candidates_with_known_sets(many, 1.6, [np.zeros((46, 46)), twice]) == ("a", "b", "c")


def test_two_clients_that_hide_each_others_mark_by_hand():
    # Of marks of 7 each estimate holds the other's half as negative: both show 3.5 in proportion,
    # here 0.9 of a deviation, and the strongest 14. Taken apart by 1 / (1 - 1/4) (1, 1/2; 1/2, 1),
    # which is off by 4/3 (1 + 1/4)^(1/2) = 1.49 deviations, both show 7: 1.2 of these, half of 14.
    table = {"a": shown(14.0, 3.9, 1), "b": shown(3.5, 3.9, 1), "c": shown(3.5, 3.9, 1)}
    hidden = np.zeros((3, 3))
    hidden[1, 2] = hidden[2, 1] = -0.5
    assert candidates_with_known_sets(table, 0.5, [np.zeros((3, 3))]) == ("a",)
    assert candidates_with_known_sets(table, 0.5, [hidden]) == ("a", "b", "c")
    # One that hides the other, which does not hide it, is told by its own Z.
    assert candidates_with_known_sets(table, 0.5, [np.triu(hidden)]) == ("a",)
    # With twice the chance both are 0.6 deviations out, and with 3 as what they show too weak.
    weak = {name: shown(one.z, 7.8, 1) for name, one in table.items()}
    assert candidates_with_known_sets(weak, 0.5, [hidden]) == ("a",)
    small = {"a": shown(30.0, 1.0, 1), "b": shown(3.5, 2.5, 1), "c": shown(3.5, 2.5, 1)}
    assert candidates_with_known_sets(small, 0.2, [hidden]) == ("a",)
    # All of each other's mark: what they show says nothing of what they have.
    whole = 2 * hidden
    assert candidates_with_known_sets(table, 0.5, [whole]) == ("a",)
    # Over two rounds, in one of which they hold nothing of each other, they hide a quarter; unless
    # they took no part in that one.
    once = [hidden, np.zeros((3, 3))]
    twice = {name: shown(one.z, one.spread, 2) for name, one in table.items()}
    assert candidates_with_known_sets(twice, 0.5, once) == ("a",)
    assert candidates_with_known_sets(table | {"a": twice["a"]}, 0.5, once) == ("a", "b", "c")
    # A light client's estimate that holds four times an update shows four times the mark.
    heavy = hidden.copy()
    heavy[0, 1] = 4.0
    assert candidates_with_known_sets(small, 0.2, [heavy]) == ("a", "b", "c")


def test_the_pair_that_shows_most_comes_first_whatever_the_order_of_clients():
    pairs = {"a": 14.0, "r": 4.0, "s": 4.0, "p": 5.0, "q": 5.0}
    for names in ("arspq", "apqrs", "asrqp"):
        table = {name: shown(pairs[name], 3.9 if name == "a" else 5.0, 1) for name in names}
        hidden = np.zeros((5, 5))
        for one, other in ("rs", "pq"):
            at = names.index(one), names.index(other)
            hidden[at] = hidden[at[::-1]] = -0.5
        assert candidates_with_known_sets(table, 0.1, [hidden]) == ("a", "p", "q", "r", "s")


@given(
    st.lists(st.floats(-3, 15), min_size=5, max_size=5),
    st.lists(st.floats(-0.9, 0.9), min_size=25, max_size=25),
    st.permutations(range(5)),
)
def test_who_may_be_marked_does_not_depend_on_the_order_of_clients(z, held, order):
    names, shares = "abcde", np.reshape(held, (5, 5))
    table = {name: shown(value, rounds=1) for name, value in zip(names, z, strict=True)}
    mixed = {names[at]: table[names[at]] for at in order}
    found = candidates_with_known_sets(table, 0.5, [shares])
    assert set(found) == set(candidates_with_known_sets(mixed, 0.5, [shares[np.ix_(order, order)]]))
    assert len(set(found)) == len(found)
    visible = candidates_with_known_sets(table, 0.5, [np.zeros((5, 5))])
    assert set(visible) <= set(found)


def test_groups_of_unknown_sets_are_nested():
    table = {"c": shown(9.0), "a": shown(14.0), "b": shown(9.0)}
    assert nested_groups(table, 0.64) == [("a",), ("a", "b"), ("a", "b", "c")]
    assert nested_groups({"a": shown(0.5), "b": shown(0.1)}, 0.64) == [("a",)]
    assert nested_groups({}, 0.64) == []
    many = {f"c{n:02}": shown(9.0) for n in range(20)}
    assert len(nested_groups(many, 0.64)) == marked_groups.MAX_NESTED_CLIENTS


def test_of_known_sets_every_group_is_tried():
    assert enumerate_groups(()) == [()]
    assert enumerate_groups(("a", "b")) == [(), ("a",), ("b",), ("a", "b")]
    names = tuple(f"c{n:02}" for n in range(12))
    groups = enumerate_groups(names)
    assert len(groups) == len(set(groups)) == 2**marked_groups.MAX_ENUMERATED_CLIENTS + 2
    assert groups[-2:] == [names[:11], names]


@given(st.lists(st.floats(-20, 30), max_size=9), st.floats(0.01, 3), st.integers(1, 30))
def test_candidates_are_of_any_order_and_scale(z_values, strength, rounds):
    table = {f"c{n}": shown(z, rounds=rounds) for n, z in enumerate(z_values)}
    found = candidate_clients(table, strength)
    assert candidate_clients(dict(reversed(table.items())), strength) == found
    doubled = {name: shown(2 * one.z, 2.0, rounds) for name, one in table.items()}
    assert candidate_clients(doubled, strength) == found
    assert set(found) <= set(candidate_clients(table, strength, largest_share=3.0))
