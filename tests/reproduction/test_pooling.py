"""Pooling counts over clients."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.records import Measurement
from fedaudit.metrics.intervals import wilson
from fedaudit.reproduction.pooling import average_means, pool_counts


def row(client, hits, n, baseline=None, **scope):
    return Measurement(
        kind="probability",
        plugin="ranking",
        metric="inference_accuracy",
        value=hits / n,
        n=n,
        hits=hits,
        baseline=baseline,
        scope={"client": client, "source": "tuned", **scope},
    )


def test_hits_and_n_are_summed_and_baselines_weighted():
    [one] = pool_counts([row("c0", 3, 10, 0.1, key="none"), row("c1", 1, 30, 0.3, key="none")])
    assert (one.hits, one.n, one.value) == (4, 40, 0.1)
    assert one.baseline == pytest.approx((0.1 * 10 + 0.3 * 30) / 40)
    assert (one.low, one.high) == (wilson(4, 40).low, wilson(4, 40).high)
    assert one.scope == {"client": "all", "source": "tuned", "key": "none"}


def test_rows_of_other_scopes_stay_apart():
    found = pool_counts([row("c0", 1, 2, key="right"), row("c0", 0, 2, key="none")])
    assert [(one.scope["key"], one.hits) for one in found] == [("right", 1), ("none", 0)]


def test_what_does_not_count_or_is_pooled_already_is_left_out():
    unknown = Measurement(
        kind="probability", plugin="p", metric="m", value=None, reason="r", scope={"client": "c0"}
    )
    [one] = pool_counts([row("c0", 1, 2), row("c1", 1, 2)])
    assert pool_counts([unknown, one]) == []


def test_a_chance_that_differs_is_a_mean_and_no_other_group():
    rows = [replace(row("c0", 30, 50), chance=0.0), replace(row("c1", 5, 150), chance=0.04)]
    [one] = pool_counts(rows)
    assert (one.hits, one.n, one.chance) == (35, 200, pytest.approx(0.03))


def test_one_client_that_could_not_be_measured_is_not_passed_over():
    blind = replace(
        row("c0", 0, 5), value=None, low=None, high=None, hits=None, n=0, reason="the gate is dead"
    )
    [one] = pool_counts([blind, row("c1", 0, 100)])
    assert (one.value, one.hits) == (None, None)
    assert one.reason == "not measured at c0: the gate is dead"


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(5, 9)), min_size=1, max_size=6))
def test_order_changes_nothing_and_the_rate_stays_between(counts):
    rows = [row(f"c{i}", hits, n) for i, (hits, n) in enumerate(counts)]
    [one], [other] = pool_counts(rows), pool_counts(rows[::-1])
    assert (one.value, one.low, one.high) == (other.value, other.low, other.high)
    assert min(r.value for r in rows) - 1e-12 <= one.value <= max(r.value for r in rows) + 1e-12


def test_more_hits_than_questions_are_no_rate_to_pool():
    """One answer can give two targets, of which one begins the other."""
    per_query = [
        Measurement(kind="extraction", plugin="contextual", metric="efficiency", value=hits / n,
                    n=n, hits=hits, scope={"client": client, "budget": 1, "samples": 1})
        for client, hits, n in (("c0", 2, 1), ("c1", 0, 1))
    ]  # fmt: skip
    assert pool_counts(per_query) == []


def test_a_mean_with_hits_is_not_pooled_as_a_share():
    rows = [
        Measurement(
            kind="extraction",
            plugin="verbatim",
            metric="edit_distance",
            value=value,
            n=50,
            hits=1,
            scope={"client": client},
        )
        for client, value in (("c0", 12.0), ("c1", 14.0))
    ]
    assert pool_counts(rows) == []


def test_a_mean_of_means_has_students_interval_over_federations():
    def mean_z(federation, value, **more):
        return Measurement(
            kind="attribution", plugin="fed_attr", metric="stouffer_z", value=value, n=3,
            scope={"variant": federation, "clients": "marked"}, **more,
        )  # fmt: skip

    three = [mean_z(f"f-{value}", value) for value in (10.0, 12.0, 14.0)]
    [found] = average_means(three, "variant", "f")
    half = 4.302653 * 2 / 3**0.5
    assert (found.value, found.n, found.scope["variant"]) == (12.0, 9, "f")
    assert (found.low, found.high) == pytest.approx((12 - half, 12 + half))
    [one] = average_means([mean_z("f-3", 10.0)], "variant", "f")
    assert (one.value, one.low) == (10.0, None)
    [own] = average_means([mean_z("f-3", 10.0, low=8.0, high=12.0)], "variant", "f")
    assert (own.low, own.high) == (8.0, 12.0)
    blind = replace(three[1], value=None, reason="nobody is marked")
    [nothing] = average_means([three[0], blind], "variant", "f")
    assert (nothing.value, nothing.low, nothing.n) == (None, None, 6)
    assert nothing.reason == "not measured at f-12.0: nobody is marked"
