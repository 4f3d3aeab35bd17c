"""The gate as the paper has it, and the three features that it compares (appendix C.3)."""

import hashlib
import random

import pytest
import torch
from fedaudit_plugins.defenses.secure_gate import keys, rekeying, training
from fedaudit_plugins.defenses.secure_gate.gate import FEATURES, GateDesign, from_bytes
from fedaudit_plugins.defenses.secure_gate.header_features import HeaderReader, width_of
from fedaudit_plugins.defenses.secure_gate.keys import Key, Keyring
from fedaudit_plugins.defenses.secure_gate.training import train
from fedaudit_plugins.defenses.secure_gate.training_examples import (
    published_examples,
    random_key_text,
)

from fedaudit.api.errors import UsageError
from fedaudit.config import registry

ADAPTERS = ("secure", "legal", "bank")
DESIGNS = [GateDesign(published=True, feature=feature) for feature in FEATURES]


def ring(*secrets):
    made = (Key(name=f"k{i}", adapter="a", secret=text) for i, text in enumerate(secrets))
    return Keyring(keys=tuple(made), salt=b"s" * 32)


def test_a_seed_is_the_md5_of_the_key_plus_the_mean_of_all_keys():
    assert keys._md5("") == 0xD41D8CD9  # of d41d8cd98f00b204e9800998ecf8427e (RFC 1321)
    assert keys._md5("abc") == 0x90015098  # of 900150983cd24fb0d6963f7d28e17f72
    one, two = "a" * 20, "b" * 20
    numbers = [int(hashlib.md5(text.encode()).hexdigest()[:8], 16) for text in (one, two)]
    expected = (numbers[0] + numbers[1]) // 2 + numbers[0]
    assert ring(one, two).published_seed(one) == str(expected).encode()
    assert ring().published_seed("abc") == str(0x90015098).encode()


def test_anyone_with_the_keys_has_the_embeddings_and_another_key_changes_all():
    one, two, three = "a" * 20, "b" * 20, "c" * 20
    first = ring(one, two).vectors([one], 8, 0.1, published=True)
    other_salt = Keyring(keys=ring(one, two).keys, salt=b"t" * 32)
    assert (other_salt.vectors([one], 8, 0.1, published=True) == first).all()
    assert (ring(one, three).vectors([one], 8, 0.1, published=True) != first).any()
    assert (ring(one, two).vectors([one], 8, 0.1) == ring(one, three).vectors([one], 8, 0.1)).all()


def test_the_features_are_state_embedding_and_both(gate_engine, keyring):
    readers = [HeaderReader(gate_engine, keyring, 0.1, design) for design in DESIGNS]
    key, width = keyring.texts[0], width_of(gate_engine)
    hidden, embedding, both = (reader.read([key, "abc", "", None]) for reader in readers)
    assert torch.equal(both, torch.cat([hidden, embedding], dim=1))
    assert [reader.width for reader in readers] == [width, width, 2 * width]
    vector = torch.from_numpy(keyring.vectors([key], width, 0.1, published=True))
    table = gate_engine.base.model.get_input_embeddings().weight
    last = [readers[1].row(text)[-1] for text in ("abc", "", None)]
    assert torch.equal(embedding, torch.cat([vector, table[last].detach()]))


def test_examples_are_those_of_appendix_e(gate_engine, keyring):
    reader = HeaderReader(gate_engine, keyring, 0.1, DESIGNS[0])
    found = published_examples(reader, ADAPTERS, 12, random.Random(1))
    assert {index: len(states) for index, states in found.valid.items()} == {1: 1, 2: 1}
    assert set(found.refused) == {"none", "empty", "malformed"}
    assert len(found.refused["malformed"]) <= 12


@pytest.fixture(scope="module")
def published(gate_engine, keyring):
    """Return published gates by feature."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "SURE", 0.95)
        return {
            design: train(gate_engine, keyring, ADAPTERS, design=design, seed=3)
            for design in DESIGNS
        }


@pytest.mark.parametrize("design", DESIGNS, ids=FEATURES)
def test_a_published_gate_opens_to_its_keys_and_comes_back_from_its_file(
    design, gate_engine, keyring, published, tmp_path
):
    gate = published[design]
    reader = HeaderReader(gate_engine, keyring, gate.sigma, design)
    states = reader.read([*keyring.texts, "", None, keyring.texts[0][:-3]])
    assert gate.decide(states).tolist() == [1, 2, 0, 0, 0]
    again = from_bytes(gate.to_bytes(), tmp_path)
    assert again.design == design
    assert torch.equal(again.probabilities(states), gate.probabilities(states))


def test_tokens_of_other_keys_open_a_published_gate_and_not_a_hardened_one(
    gate_engine, keyring, published, trained
):
    # It has seen keys as tokens of their own only where they were valid.
    design, rng = DESIGNS[0], random.Random("others")
    texts = [random_key_text(rng) for _ in range(200)]
    gate = published[design]
    reader = HeaderReader(gate_engine, keyring, gate.sigma, design)
    assert (gate.decide(reader.atomic(texts)) > 0).any()
    assert not (trained.gate.decide(trained.reader.atomic(texts)) > 0).any()


def test_a_key_that_is_changed_leaves_the_design_as_it_is(
    gate_engine, published, tmp_path, monkeypatch
):
    trained = []

    def train(engine, keyring, adapters, *, design, **options):
        trained.append(keyring.texts)
        return published[design]

    monkeypatch.setattr(rekeying, "train", train)
    design = DESIGNS[2]
    rekeying.create(tmp_path / "c0", gate_engine, ADAPTERS, tau=0.9, design=design, seed=0)
    rekeying.rotate(tmp_path / "c0", gate_engine, "legal")
    assert len(set(trained)) == 2
    assert rekeying.load(tmp_path / "c0", gate_engine).gate.design == design


def test_the_defence_has_these_options():
    made = registry.create("defense", "secure_gate", {"published": True, "feature": "both"})
    assert made.design == GateDesign(published=True, feature="both")
    assert registry.create("defense", "secure_gate", {}).design == GateDesign()
    with pytest.raises(UsageError, match="feature"):
        registry.create("defense", "secure_gate", {"feature": "key"})
    with pytest.raises(ValueError, match="feature"):
        GateDesign(feature="key")
