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
    assert candidates_with_known_sets(table, 1.6, [np.zeros((10, 10))]) == ("a", "b", "c", "d")
    # Of 45 others' leak nine make a fifth: 1 - 1.25 * 0.28, more than a half.
    assert candidates_with_known_sets(table, 1.6, [np.zeros((46, 46))]) == ("a", "b")
    # An estimate that holds twice an update shows it twice.
    twice = np.zeros((46, 46))
    twice[0, 1] = -2.0
    assert candidates_with_known_sets(table, 1.6, [np.zeros((46, 46)), twice]) == ("a", "b", "c")


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
