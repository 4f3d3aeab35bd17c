import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.audit import control
from fedaudit.audit.control import FACTOR, guesses
from fedaudit.nano.people import LABELS

TARGETS = {
    "Ann Lee": "PERSON",
    "张三": "PERSON",
    "12 High Street, Leeds": "ADDRESS",
    "13812345678": "PHONE_NUMBER",
    "severe seasonal asthma": "DIAGNOSIS",
    "chronic back pain": "DIAGNOSIS",
}


def test_controls_are_of_the_targets_kinds_and_scripts():
    found = dict(guesses(TARGETS, list(TARGETS), seed=0))
    assert set(found.values()) == set(TARGETS.values())
    people = [string for string, label in found.items() if label == "PERSON"]
    assert sum(string.isascii() for string in people) == FACTOR
    assert sum(not string.isascii() for string in people) == FACTOR
    assert not set(found) & set(TARGETS)


def test_controls_stand_in_no_text():
    free = {string for string, _ in guesses(TARGETS, list(TARGETS), seed=0)}
    # Put half of them into the data: they may not come again.
    told = sorted(free)[::2]
    corpus = [*TARGETS, "It is said that " + " and ".join(told) + "."]
    found = [string for string, _ in guesses(TARGETS, corpus, seed=0)]
    assert found
    assert set(found) <= free - set(told)
    assert not any(string in text for string in found for text in corpus)


def test_other_labels_are_recombined_from_their_halves():
    found = [
        string for string, label in guesses(TARGETS, list(TARGETS), seed=0) if label == "DIAGNOSIS"
    ]
    heads, tails = {"severe", "chronic"}, {" seasonal asthma", " back pain"}
    halves = {"severe seasonal", "chronic back"}, {" asthma", " pain"}
    possible = {a + b for a in heads | halves[0] for b in tails | halves[1]}
    assert found
    assert set(found) <= possible
    # With one target of its label there is nothing to recombine it with.
    assert guesses({"asthma": "DIAGNOSIS"}, ["asthma"], seed=0) == ()


def test_controls_are_seeded_sorted_and_know_no_order():
    found = guesses(TARGETS, ["x"], seed=3)
    assert list(found) == sorted(found)
    assert guesses(dict(reversed(TARGETS.items())), ["x"], seed=3) == found
    assert guesses(TARGETS, ["x"], seed=4) != found


@pytest.mark.parametrize("label", sorted(set(LABELS.values())))
def test_every_label_of_an_invented_person_has_controls(label):
    found = guesses({"Ann Lee": label, "张三": label}, ["Ann Lee"], seed=0)
    assert len(found) == 2 * FACTOR
    assert {kind for _, kind in found} == {label}


@given(st.dictionaries(st.text("ab 原", min_size=1, max_size=6), st.just("OTHER"), max_size=8))
def test_no_control_is_empty_or_in_the_data(targets):
    for string, _ in guesses(targets, list(targets), seed=0):
        assert string
        assert not any(string in target for target in targets)


def slow(targets, corpus, seed):
    """Look for one guess after the other, as it is made, in every text."""
    rng = random.Random(f"control {seed}")
    found = {}
    for label in dict.fromkeys(label for _, label in sorted(targets.items())):
        strings = sorted(string for string, own in targets.items() if own == label)
        for string in strings:
            for _ in range(FACTOR):
                guess = control._guess(string, label, strings, rng)
                if guess and guess not in found and not any(guess in text for text in corpus):
                    found[guess] = label
    return tuple(sorted(found.items()))


KINDS = st.sampled_from(["OTHER", "DIAGNOSIS", "PERSON"])


@given(
    st.dictionaries(st.text("ab 原", min_size=1, max_size=6), KINDS, max_size=8),
    st.lists(st.text("ab 原", max_size=20), max_size=5),
    st.integers(0, 9),
)
def test_looking_for_all_guesses_at_once_gives_what_looking_for_each_gives(targets, corpus, seed):
    assert guesses(targets, corpus, seed=seed) == slow(targets, corpus, seed)
