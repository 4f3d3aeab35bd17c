"""What a gate is taught: every way to show no valid key, and none to show one by accident."""

import random
from functools import partial

import pytest
import torch
from fedaudit_plugins.defenses.secure_gate import training_examples
from fedaudit_plugins.defenses.secure_gate.header_features import HeaderReader
from fedaudit_plugins.defenses.secure_gate.keys import ALPHABET, Keyring
from hypothesis import given
from hypothesis import strategies as st

KEYS = st.text(ALPHABET, min_size=20, max_size=20)
ADAPTERS = ("secure", "legal", "bank")


def distance(one, two):
    """Return the edit distance, by its definition."""
    row = list(range(len(two) + 1))
    for i, a in enumerate(one, 1):
        before, row[0] = row[:], i
        for j, b in enumerate(two, 1):
            row[j] = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
    return row[-1]


@given(KEYS, st.randoms())
def test_a_neighbour_is_one_edit_away(key, rng):
    assert distance(key, training_examples.neighbour(key, rng)) == 1


@given(KEYS, st.randoms())
def test_a_fragment_is_a_part(key, rng):
    found = training_examples.fragment(key, rng)
    assert found in key
    assert 0 < len(found) < 20


@pytest.mark.parametrize("kind", ["_truncate_key", "_extend_key", "_corrupt_key", "_change_case"])
def test_malformed_keys(kind):
    rng, key = random.Random(0), "aBcDeFgHiJ0123456789"
    for _ in range(200):
        found = getattr(training_examples, kind)(key, rng)
        assert {
            "_truncate_key": key.startswith(found) and 0 < len(found) < 20,
            "_extend_key": found.startswith(key) and len(found) > 20,
            "_corrupt_key": len(found) == 20,
            "_change_case": found.lower() == key.lower() and found != key,
        }[kind]
    made = {training_examples.malformed_key(key, rng) for _ in range(400)}
    assert {len(text) < 20 for text in made} == {True, False}
    assert any(len(text) > 20 for text in made)
    assert "AbCdEfGhIj0123456789" in made


def test_look_alikes_are_other_characters():
    assert (
        "ABCabc".translate(training_examples.CYRILLIC_LOOKALIKES) == "АВСаbс"
    )  # Cyrillic, but for b
    assert not set("ABCabc".translate(training_examples.CYRILLIC_LOOKALIKES)) & set("ABCac")
    assert "aZ9".translate(training_examples.WIDE) == "\uff41\uff3a\uff19"
    assert len(training_examples.WIDE) == 62


@pytest.fixture(scope="module")
def taught(gate_engine, keyring):
    reader = HeaderReader(gate_engine, keyring, 0.12)
    return training_examples.gate_examples(
        reader, ADAPTERS, ["o" * 20], 12, random.Random(1)
    ), reader


def test_every_class_and_kind_has_its_lessons(taught, keyring):
    found, reader = taught
    assert {index: len(states) for index, states in found.valid.items()} == {1: 1, 2: 1}
    assert torch.equal(found.valid[1], reader.atomic(keyring.texts[:1]))
    counts = {kind: len(states) for kind, states in found.refused.items()}
    several = {kind: counts.pop(kind) for kind in ("malformed", "fragment", "alike", "neighbour")}
    # the old key, the neighbours, 36 random ones
    atomic = 1 + several["neighbour"] + 36
    assert counts == {"none": 1, "empty": 1, "atomic": atomic, "random": 12, "literal": 3}
    assert 1 < several.pop("alike") <= 6  # three keys, in two scripts
    assert all(6 < count <= 12 for count in several.values())  # less what was drawn twice
    close = partial(torch.testing.assert_close, atol=1e-4, rtol=1e-4)
    close(found.refused["atomic"][:1], reader.atomic(["o" * 20]))
    close(found.refused["literal"], reader.spelled_states([*keyring.texts, "o" * 20]))


def test_lessons_follow_from_the_seed(taught, keyring):
    found, reader = taught
    again = training_examples.gate_examples(reader, ADAPTERS, ["o" * 20], 12, random.Random(1))
    other = training_examples.gate_examples(reader, ADAPTERS, ["o" * 20], 12, random.Random(2))
    assert all(torch.equal(found.refused[kind], again.refused[kind]) for kind in found.refused)
    assert not torch.equal(found.refused["random"], other.refused["random"])


def test_no_valid_key_is_taught_to_be_refused(gate_engine, keyring, monkeypatch):
    monkeypatch.setattr(training_examples, "neighbour", lambda key, rng: key)
    monkeypatch.setattr(
        training_examples, "random_key_text", lambda rng, length=20: keyring.texts[0]
    )
    reader = HeaderReader(gate_engine, keyring, 0.12)
    found = training_examples.gate_examples(reader, ADAPTERS, [], 4, random.Random(1))
    assert len(found.refused["neighbour"]) == len(found.refused["random"]) == 0
    assert len(found.refused["atomic"]) == 0


def test_a_ring_without_keys_has_lessons_still(gate_engine):
    reader = HeaderReader(gate_engine, Keyring(keys=(), salt=b"s" * 32), 0.12)
    found = training_examples.gate_examples(reader, ADAPTERS, [], 4, random.Random(1))
    assert found.valid == {}
    assert set(found.refused) == {"none", "empty", "atomic", "random"}
