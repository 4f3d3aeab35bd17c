"""Times of steps as shares, and what is left of extraction without the base's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.records import Measurement
from fedaudit.reproduction.variant import (
    beyond_base_rows,
    gating_overheads,
    secure_gate_rows,
    training_overheads,
)


def test_steps_are_set_against_the_training():
    def row(metric, value, **scope):
        return Measurement(
            kind="attribution", plugin="fed_attr", metric=metric, value=value, scope=scope
        )

    rows = [row("seconds", 5.0, step="sums"), row("seconds", 20.0, step="scoring")]
    rows += [row("seconds", 9.0), row("seconds", None, step="lost"), row("tpr", 1.0)]
    found = training_overheads(rows, 200.0)
    assert [(one.metric, one.value, one.scope) for one in found] == [
        ("overhead", 0.025, {"step": "sums"}),
        ("overhead", 0.1, {"step": "scoring"}),
    ]
    assert training_overheads(rows, 0.0) == training_overheads([*found, *rows], 200.0) == []


def cost(client, stage, value):
    return Measurement(
        kind="cost",
        plugin="secure_gate",
        metric="seconds",
        value=value,
        scope={"client": client, "stage": stage, "n": 8},
    )


def loss(client, step, value):
    scope = {"client": client, "stage": "gate training", "step": step}
    return Measurement(
        kind="defense", plugin="secure_gate", metric="loss", value=value, scope=scope
    )


def test_a_gating_pass_is_set_against_its_own_clients_answer():
    rows = [cost("c0", "gating", 0.1), cost("c1", "gating", 0.3), cost("c2", "gating", 0.5)]
    rows += [cost("c1", "adapter", 1.0), cost("c0", "adapter", 0.5)]
    found = gating_overheads(rows)
    assert [(one.metric, one.scope["client"]) for one in found] == [
        ("overhead", "c0"),
        ("overhead", "c1"),
    ]
    assert [one.value for one in found] == pytest.approx([0.2, 0.3])


def test_clients_overheads_and_losses_have_a_mean():
    rows = [cost("c0", "gating", 0.1), cost("c0", "adapter", 1.0)]
    rows += [cost("c1", "gating", 0.3), cost("c1", "adapter", 1.0)]
    rows += [loss("c0", 1, 4.0), loss("c1", 1, 2.0), loss("c0", 20, 1.0), loss("c1", 20, 0.0)]
    means = [row for row in secure_gate_rows(rows) if row.scope["client"] == "all"]
    assert [(row.metric, row.scope.get("step")) for row in means] == [
        ("overhead", None),
        ("loss", 1),
        ("loss", 20),
    ]
    assert [row.value for row in means] == pytest.approx([0.2, 3.0, 0.5])
    assert secure_gate_rows([loss("c0", 1, 4.0)])[0].value == 4.0
    assert secure_gate_rows([cost("c0", "gating", 0.1)]) == []


@given(
    st.lists(st.tuples(st.floats(1e-6, 1e3), st.floats(1e-6, 1e3)), min_size=1, max_size=5),
    st.floats(0.1, 10.0),
)
def test_a_machine_that_is_slower_by_one_factor_changes_nothing(times, factor):
    def rows(by):
        return [
            cost(f"c{n}", stage, by * value)
            for n, pair in enumerate(times)
            for stage, value in zip(("gating", "adapter"), pair, strict=True)
        ]

    before, after = (secure_gate_rows(rows(by)) for by in (1.0, factor))
    assert [row.value for row in after] == pytest.approx([row.value for row in before])


def coverage(source, hits, n=40, **scope):
    return Measurement.rate(
        hits,
        n,
        kind="extraction",
        plugin="contextual",
        metric="coverage",
        scope={"source": source, "set": "all", **scope},
    )


def test_what_is_left_without_the_base_is_a_share_of_what_was_covered():
    rows = [coverage("tuned", 10), coverage("tuned-not-base", 9), coverage("base", 3)]
    rows += [coverage("tuned", 4, label="PERSON"), coverage("tuned-not-base", 0, label="PERSON")]
    whole, persons = beyond_base_rows(rows)
    assert (whole.value, whole.hits, whole.n, whole.scope) == (0.9, 9, 10, {"set": "all"})
    assert (whole.low, whole.high) == pytest.approx((0.5958, 0.9821), abs=1e-4)  # Wilson, by hand
    assert (persons.value, persons.n, persons.scope["label"]) == (0.0, 4, "PERSON")


def test_without_anything_covered_there_is_no_share():
    [one] = beyond_base_rows([coverage("tuned", 0), coverage("tuned-not-base", 0)])
    assert (one.value, one.n) == (None, None)
    assert one.reason == "the tuned model gave none of the targets"
    assert (
        beyond_base_rows([coverage("tuned", 3)])
        == beyond_base_rows([coverage("tuned-not-base", 3)])
        == []
    )
