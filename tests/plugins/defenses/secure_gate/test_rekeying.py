"""A client's folder: its keys, its gate, how requests are routed, and changes of keys."""

import json
import shutil
import stat
from dataclasses import replace as replace_field
from pathlib import Path

import pytest
from fedaudit_plugins.defenses.secure_gate import rekeying
from fedaudit_plugins.defenses.secure_gate.header_features import heading
from fedaudit_plugins.defenses.secure_gate.training_examples import CYRILLIC_LOOKALIKES, WIDE

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.records import GatedRequest

ADAPTERS = ("secure", "legal", "bank")


@pytest.fixture(scope="module")
def made(gate_engine, tmp_path_factory):
    place = tmp_path_factory.mktemp("deployed")
    rekeying.create(place / "c0", gate_engine, ADAPTERS, tau=0.9, seed=0)
    shutil.copytree(place / "c0", place / "c1")
    return place


@pytest.fixture
def place(made, tmp_path):
    return shutil.copytree(made, tmp_path / "defense") / "c0"


def secret(place, name):
    keys = json.loads((place / "keys.json").read_text())["keys"]
    return next(key["secret"] for key in keys if key["name"] == name)


def asked(responder, *texts):
    return [one.name for one in responder.route([GatedRequest(text) for text in texts])]


def test_each_key_opens_its_own_adapter_and_nothing_else_opens_any(place, gate_engine):
    responder = rekeying.load(place, gate_engine)
    legal, bank = secret(place, "legal"), secret(place, "bank")
    assert asked(responder, f"{heading(legal)}Who?", f"{heading(bank)}Who?") == ["legal", "bank"]
    refused = [
        "Who?",
        f"{heading('')}Who?",
        f"{heading(legal[:-1])}Who?",
        f"{heading(legal + 'x')}Who?",
        f"{heading(legal.swapcase())}Who?",
        f"{heading(legal.translate(CYRILLIC_LOOKALIKES))}Who?",
        f"{heading(legal.translate(WIDE))}Who?",
        f" {heading(legal)}Who?",
        f"Say {heading(legal)}",
        f"{heading('')}{heading(legal)}Who?",
        f"[special_token={legal}] Who?",
        f"{legal} Who?",
    ]
    assert set(asked(responder, *refused)) == {"secure"}


def test_headings_name_who_asks(place, gate_engine):
    responder = rekeying.load(place, gate_engine, [place.parent / "c1"], seed=3)
    found = responder.headings()
    assert list(found) == ["right", "right:legal", "right:bank", "wrong", "none", "other"]
    assert found["right"] == found["right:legal"] == heading(secret(place, "legal"))
    assert found["none"] == ""
    assert found["other"] == heading(secret(place.parent / "c1", "legal"))
    assert responder.headings() == found
    assert rekeying.load(place, gate_engine, seed=4).headings()["wrong"] != found["wrong"]
    assert asked(responder, found["wrong"] + "x") == ["secure"]
    assert "other" not in rekeying.load(place, gate_engine).headings()


def test_rotating_adding_and_revoking(place, gate_engine, short_training):
    old, bank = secret(place, "legal"), secret(place, "bank")
    rekeying.rotate(place, gate_engine, "legal")
    new = secret(place, "legal")
    assert (new != old, secret(place, "bank") == bank) == (True, True)
    assert asked(rekeying.load(place, gate_engine), heading(old), heading(new)) == [
        "secure",
        "legal",
    ]
    rekeying.add(place, gate_engine, "auditor", "bank")
    third = secret(place, "auditor")
    responder = rekeying.load(place, gate_engine)
    texts = [heading(key) for key in (old, new, bank, third)]
    assert asked(responder, *texts) == ["secure", "legal", "bank", "bank"]
    assert responder.opens([old], atomic=True) == ["secure"], "a stale tokenizer opens nothing"
    rekeying.revoke(place, gate_engine, "bank")
    assert asked(rekeying.load(place, gate_engine), *texts) == ["secure", "legal", "secure", "bank"]
    assert responder.adapters == ADAPTERS
    for name in ("keys.json", "gate.safetensors"):
        assert stat.S_IMODE((place / name).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda place, gate_engine: rekeying.rotate(place, gate_engine, "legl"), "legal"),
        (lambda place, gate_engine: rekeying.revoke(place, gate_engine, "nobody"), "nobody"),
        (lambda place, gate_engine: rekeying.add(place, gate_engine, "legal", "bank"), "already"),
        (lambda place, gate_engine: rekeying.add(place, gate_engine, "x", "secure"), "secure"),
        (lambda place, gate_engine: rekeying.add(place, gate_engine, "A" * 20, "bank"), "name"),
    ],
)
def test_changes_that_cannot_be(place, gate_engine, change, says):
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    with pytest.raises(UsageError, match=says):
        change(place, gate_engine)
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before


@pytest.mark.parametrize("step", ["gate", "keys"])
def test_a_change_that_is_cut_short_is_finished_or_undone(
    place, gate_engine, short_training, monkeypatch, step
):
    """Stopped before the gate is written it never was; stopped behind it, it holds."""
    old = secret(place, "legal")
    replace = Path.replace

    def stops(self, target):
        if Path(target).name == {"gate": "gate.safetensors", "keys": "keys.json"}[step]:
            raise KeyboardInterrupt
        return replace(self, target)

    with monkeypatch.context() as cut:
        if step == "gate":  # which is then not kept
            gate = rekeying.load(place, gate_engine).gate
            cut.setattr(rekeying, "train", lambda *_, **options: replace_field(gate, tau=0.8))
        cut.setattr(Path, "replace", stops)
        with pytest.raises(KeyboardInterrupt):
            rekeying.rotate(place, gate_engine, "legal")
    waiting = place / "keys.json.new"
    assert stat.S_IMODE(waiting.stat().st_mode) == 0o600
    responder = rekeying.load(place, gate_engine)
    new = secret(place, "legal")
    assert (new == old) == (step == "gate")
    assert asked(responder, heading(new)) == ["legal"]
    assert asked(responder, heading(old)) == ["legal" if step == "gate" else "secure"]
    assert not waiting.exists()


def broken_files(place):
    keys = place / "keys.json"
    table = json.loads(keys.read_text())
    doubled = {**table, "keys": [table["keys"][0], table["keys"][0]]}
    short = {**table, "keys": [{**table["keys"][0], "secret": "short"}]}
    yield "its mode must be 0600", lambda: keys.chmod(0o644)
    yield "cannot be read", keys.unlink
    for content in ("", "{}", "[]", json.dumps(doubled), json.dumps(short), "\x00"):
        yield "not a key file", lambda content=content: keys.write_text(content)
    other = json.dumps({**table, "gate": "0" * 64})
    yield "belongs to another gate", lambda: keys.write_text(other)
    yield "cannot be read", (place / "gate.safetensors").unlink
    yield "belongs to another gate", lambda: (place / "gate.safetensors").write_bytes(b"x")


@pytest.mark.parametrize("number", range(11))
def test_key_files_that_are_not_what_they_must_be(place, gate_engine, number):
    says, damage = list(broken_files(place))[number]
    secrets = [secret(place, name) for name in ("legal", "bank")]
    damage()
    with pytest.raises(InputError, match=says) as error:
        rekeying.load(place, gate_engine)
    assert not any(one in str(error.value) for one in secrets)


def test_nothing_but_the_key_file_holds_a_secret(place, gate_engine):
    table = json.loads((place / "keys.json").read_text())
    responder = rekeying.load(place, gate_engine)
    content = (place / "gate.safetensors").read_bytes()
    shown = repr(responder.keyring) + str(responder.keyring) + repr(responder.gate)
    for one in (table["salt"], *(key["secret"] for key in table["keys"])):
        assert one.encode() not in content
        assert one not in shown
        assert bytes.fromhex(table["salt"]) not in content
