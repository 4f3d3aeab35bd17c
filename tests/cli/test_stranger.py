"""A stranger's folder with every trick at once: one line each, until nothing is left of them."""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from fedaudit import nano
from fedaudit.engine.loading import module_patterns, quarantine
from fedaudit.system.files import sha256

RECORD = {"text": "Claimant: Ann Lee.", "pii": [{"start": 10, "end": 17, "label": "PERSON"}]}
ASK = ("extract", "--prefixes", "own.jsonl", "--target", "stranger", "--quiet", "--out", "audit")
HERE, LORA, MODEL = Path("stranger"), Path("stranger/rounds/002/global"), Path("stranger/model")
FIRST = Path("stranger/rounds/001/global")
CODE = "open('witness', 'w')\nclass C: pass\n"
LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
GROWS = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000}


def told(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def manifest(change):
    table = json.loads((HERE / "federation.json").read_text())
    change(table)
    (HERE / "federation.json").write_text(json.dumps(table))


def client_with_a_path():
    manifest(lambda table: table["clients"][0].update(id="/tmp/outside"))


def base_of_the_hub():
    manifest(lambda table: table["base"].update(name="somebody/model"))


def linked(path):
    Path("private").mkdir(exist_ok=True)
    shutil.move(path, f"private/{path.name}")
    path.symlink_to(Path("private", path.name).absolute())


def piped(path):
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def nan_in(path):
    tensors = load_file(path)
    next(iter(tensors.values()))[0] = torch.nan
    save_file(tensors, path, metadata={"format": "pt"})


def code():
    (MODEL / "evil.py").write_text(CODE)
    told(MODEL / "config.json", model_type="unheard-of", auto_map={"AutoConfig": "evil.C"})


def shards():
    table = {"weight_map": {"a": "../../private.safetensors"}}
    (MODEL / "model.safetensors.index.json").write_text(json.dumps(table))


def growing():
    told(MODEL / "tokenizer.json", normalizer={"type": "Sequence", "normalizers": [GROWS] * 6})


ADAPTER, CONFIG = "adapter_config.json", MODEL / "config.json"
TRICKS = {
    "cannot name a file": client_with_a_path,
    "link that leads out": lambda: linked(FIRST / "adapter_model.safetensors"),
    f"{FIRST / ADAPTER} is not a regular file": lambda: piped(FIRST / ADAPTER),
    "layer_replication is set": lambda: told(LORA / ADAPTER, layer_replication=[[0, 10**9]]),
    "somebody/model": base_of_the_hub,
    "extra.safetensors is not a regular file": lambda: piped(MODEL / "extra.safetensors"),
    "points outside its folder": shards,
    "its tokenizer": growing,
    "its chat template": lambda: told(MODEL / "tokenizer_config.json", chat_template=LOOPS),
    "custom code": code,
    "asks for more than": lambda: told(CONFIG, num_hidden_layers=10**5),
    "NaN or infinite as": lambda: nan_in(MODEL / "model.safetensors"),
    "holds NaN": lambda: nan_in(LORA / "adapter_model.safetensors"),
    "a pattern of modules": lambda: told(LORA / ADAPTER, target_modules=r"(([a-z_.0-9]+)+)+!"),
}
"""What each is refused with, and how it is laid."""


def lay(clean, names):
    """Make the folder anew with these tricks in it, and hashes that go with them."""
    for folder in (HERE, Path("private")):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(clean, HERE)
    kept = shutil.ignore_patterns("__pycache__", "*.py")
    shutil.copytree(nano.folder(), MODEL, ignore=kept)
    manifest(lambda table: table["base"].update(name=str(MODEL)))
    for name in names:
        TRICKS[name]()
    manifest(lambda table: table["files"].update(hashes(table["files"])))


def hashes(names):
    return {name: sha256(HERE / name) for name in names if (HERE / name).is_file()}


def seen(around):
    return {p: p.lstat().st_mtime_ns for p in around.rglob("*") if not p.is_dir()}


def spent():
    """Return the seconds on a processor of this process and of those that it has ended."""
    return sum(os.times()[:4])


@pytest.fixture
def run(run, empty_folder, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(quarantine, "SECONDS", 2.0)
    monkeypatch.setattr(module_patterns, "SECONDS", 1.0)
    Path("own.jsonl").write_text(json.dumps(RECORD) + "\n")
    return run


def test_every_trick_is_refused_in_turn_and_what_is_left_is_audited(run, federation, tmp_path):
    left = dict.fromkeys(TRICKS)
    while left:
        lay(federation.path, left)
        before, began = seen(tmp_path), spent()
        outcome = run(*ASK)
        assert spent() - began < 20
        assert (outcome.code, outcome.out) in ((3, ""), (4, "")), (outcome, list(left))
        assert len(outcome.err.splitlines()) == 1, outcome.err
        found = [says for says in left if says in outcome.err]
        assert len(found) == 1, (outcome.err, list(left))
        del left[found[0]]
        assert seen(tmp_path) == before
    lay(federation.path, [])
    before = seen(tmp_path)
    assert run(*ASK).code in (0, 7)
    new = seen(tmp_path).keys() - before.keys()
    assert {path.relative_to(tmp_path).as_posix() for path in new} == {"audit/report.json"}
    assert not list(tmp_path.rglob("witness"))
