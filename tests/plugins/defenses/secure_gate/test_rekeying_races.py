"""Changes of keys while somebody else opens the folder, and what a change leaves alone."""

import itertools
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from fedaudit_plugins.defenses.secure_gate import keys, rekeying

from fedaudit.system.files import atomic, sha256

ADAPTERS = ("secure", "legal", "bank")


@pytest.fixture
def deployed(tmp_path, trained, gate_engine, monkeypatch):
    """Return a deployed folder where every change gets another gate, without its training."""
    taus, taught = itertools.count(900), []

    def train(engine, keyring, adapters, *, tau, design, seed, old=(), on_loss=None):
        taught.append((keyring, tuple(old)))
        return replace(trained.gate, tau=next(taus) / 1000)

    monkeypatch.setattr(rekeying, "train", train)
    rekeying.create(tmp_path / "c0", gate_engine, ADAPTERS, tau=0.9, seed=0)
    place = tmp_path / "c0"
    for name in ADAPTERS:
        (place / name).mkdir()
        (place / name / "adapter_model.safetensors").write_bytes(name.encode())
    taught.clear()
    return SimpleNamespace(path=place, taught=taught)


def ring(place):
    return keys.read(place / "keys.json")[0]


def adapters(place):
    return {path: (sha256(path), path.stat().st_mtime_ns) for path in place.glob("*/*.safetensors")}


def consistent(place):
    keyring, digest = keys.read(place / "keys.json")
    assert digest == sha256(place / "gate.safetensors")
    assert not (place / "keys.json.new").exists()
    return keyring


def test_a_rotation_touches_one_key_and_no_adapter(deployed, gate_engine):
    place = deployed.path
    before, files = ring(place), adapters(place)
    rekeying.rotate(place, gate_engine, "legal", 5)
    after = consistent(place)
    assert adapters(place) == files
    assert len(files) == 3
    assert after.salt == before.salt
    assert after.keys[1] == before.keys[1]
    assert (after.keys[0].name, after.keys[0].adapter) == ("legal", "legal")
    assert after.keys[0].secret != before.keys[0].secret
    assert deployed.taught == [(after, (before.keys[0].secret,))]


@pytest.mark.parametrize("when", ["before", "after"])
def test_whoever_opens_the_folder_meanwhile_breaks_nothing(
    deployed, gate_engine, monkeypatch, when
):
    """A reader finishes or drops the key file that waits; the change ends well all the same."""
    place = deployed.path
    old, seen = ring(place), []

    @contextmanager
    def watched(path, **options):
        if when == "before":
            seen.append(rekeying.load(place, gate_engine).secrets)
        with atomic(path, **options) as temporary:
            yield temporary
        if when == "after":
            seen.append(rekeying.load(place, gate_engine).secrets)

    monkeypatch.setattr(rekeying, "atomic", watched)
    rekeying.rotate(place, gate_engine, "legal", 5)
    new = consistent(place)
    assert new.texts[0] != old.texts[0]
    assert seen == [old.texts if when == "before" else new.texts]
