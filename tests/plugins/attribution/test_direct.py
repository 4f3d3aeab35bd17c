"""Direct scoring and the global model test, against sums by hand."""

from math import sqrt

import pytest
from baseline_trial import hidden, score, seen, trial
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError
from fedaudit.config.registry import create

DIRECT = create("attribution", "direct")


def scored(rounds, **given):
    """Return what Direct makes of updates that are (z for "m1", z for "m2") themselves."""
    written = {}

    def write(start, update):
        folder = start / str(len(written))
        written[folder] = update
        return folder

    def measure(folders):
        asked.append(len(folders))
        return [dict(zip(("m1", "m2"), map(score, written[f]), strict=False)) for f in folders]

    asked = []
    made = trial(
        [seen(n, updates) for n, updates in enumerate(rounds)],
        write=write,
        measure=measure,
        **given,
    )
    return DIRECT.attribute(made), asked, written


def test_z_is_the_sum_over_the_root_of_the_rounds_that_a_client_was_in():
    found, asked, written = scored(
        [{"a": (3.0,), "b": (3.0,), "c": (4.0,)}, {"b": (2.5,), "a": (3.0,)}]
    )
    a, b, c = found.clients
    assert (a.client, b.client, c.client) == ("a", "b", "c")
    assert a.z == pytest.approx(6 / sqrt(2))
    assert b.z == pytest.approx(5.5 / sqrt(2))
    assert c.z == 4.0
    assert [one.flagged for one in found.clients] == [True, False, False]  # 4.0 is not above 4
    assert c.p_value == pytest.approx(3.167124183e-05)
    assert asked == [3, 2]  # a round's adapters are asked together
    assert {str(folder.parent) for folder in written} == {"global-0", "global-1"}


def test_the_mark_that_speaks_most_against_a_client_counts():
    found, _, _ = scored([{"a": (1.0, 2.0), "b": (5.0, -9.0)}, {"a": (3.0, 1.5)}], threshold=2.5)
    a, b = found.clients
    assert (a.mark, a.flagged, a.z) == ("m1", True, pytest.approx(4 / sqrt(2)))
    assert (b.mark, b.flagged, b.z) == ("m1", True, 5.0)


def test_without_marks_nobody_is_flagged():
    found, _, _ = scored([{"a": ()}])
    assert [(one.flagged, one.z, one.p_value) for one in found.clients] == [(False, None, None)]


def test_it_says_that_it_breaks_secure_aggregation():
    found, _, _ = scored([{"a": (0.0,)}])
    assert DIRECT.plaintext
    assert "secure aggregation does not allow" in found.limits[0]


@pytest.mark.parametrize("name", ["direct", "fldetector", "flforensics"])
def test_hidden_updates_are_refused_in_one_line(name):
    rounds = [seen(0, {"a": (0.0,)}), hidden(7, ("a", "b"))]
    made = trial(rounds, measure=lambda folders: [], write=None, texts=("some text",))
    with pytest.raises(InputError, match=rf"{name} needs .* hides: round 7 has none") as error:
        create("attribution", name).attribute(made)
    assert "\n" not in str(error.value)


values = st.lists(st.floats(-6, 6), min_size=4, max_size=4)


@given(values, st.permutations("abcd"))
def test_the_order_of_the_clients_changes_nothing(drawn, order):
    updates = {client: (z,) for client, z in zip("abcd", drawn, strict=True)}
    straight, _, _ = scored([updates, updates])
    mixed, _, _ = scored([{client: updates[client] for client in order}, updates])
    assert straight == mixed


def test_the_global_model_is_tested_once_and_names_nobody():
    asked = []

    def measure(folders):
        asked.append([str(folder) for folder in folders])
        return [{"m1": score(7.0), "m2": score(0.5)}]

    method = create("attribution", "global")
    found = method.attribute(trial([hidden(0, ("a", "b"))], measure=measure))
    assert asked == [["last"]]
    assert found.clients == ()
    assert {mark: one.z for mark, one in found.marks.items()} == {"m1": 7.0, "m2": 0.5}
    assert not method.plaintext
    assert "not who did" in found.limits[0]
