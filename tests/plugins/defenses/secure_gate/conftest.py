"""One engine and one trained gate for all of SecureGate's tests of keys and gates."""

import random
from types import SimpleNamespace

import pytest

ADAPTERS = ("secure", "legal", "bank")


@pytest.fixture(scope="session")
def gate_engine():
    from fedaudit.engine.loading.loader import load_base
    from fedaudit.engine.local import LocalEngine

    return LocalEngine(load_base("fedaudit-nano", device="cpu"))


@pytest.fixture(scope="session")
def keyring():
    """Return two keys, of one adapter each, that are the same in every run."""
    from fedaudit_plugins.defenses.secure_gate.keys import Key, Keyring
    from fedaudit_plugins.defenses.secure_gate.training_examples import random_key_text

    rng = random.Random("keyring")
    keys = tuple(Key(name=f"{a}-1", adapter=a, secret=random_key_text(rng)) for a in ADAPTERS[1:])
    return Keyring(keys=keys, salt=bytes(range(32)))


@pytest.fixture
def short_training(monkeypatch):
    """Have gates learn from few examples, and stop a little above tau."""
    from fedaudit_plugins.defenses.secure_gate import training

    monkeypatch.setattr(training, "COUNT", 32)
    monkeypatch.setattr(training, "HELD_OUT", 8)
    monkeypatch.setattr(training, "SURE", 0.95)


@pytest.fixture(scope="session")
def trained(gate_engine, keyring):
    """Return a gate for `keyring`, and what reads headings for it."""
    from fedaudit_plugins.defenses.secure_gate.header_features import HeaderReader
    from fedaudit_plugins.defenses.secure_gate.training import train

    gate = train(gate_engine, keyring, ADAPTERS, seed=3)
    return SimpleNamespace(gate=gate, reader=HeaderReader(gate_engine, keyring, gate.sigma))
