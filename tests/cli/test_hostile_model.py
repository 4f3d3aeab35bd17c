"""Models and adapters that hang, fill the memory or end the process: one line and exit code 3."""

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import load_file, save_file

from fedaudit import nano
from fedaudit.api.errors import InputError
from fedaudit.engine.loading import loader, module_patterns, quarantine

RECORD = {"text": "Claimant: Ann Lee.", "pii": [{"start": 10, "end": 17, "label": "PERSON"}]}
ASK = ("extract", "--prefixes", "own.jsonl", "--quiet", "--device", "cpu")


@pytest.fixture
def run(run, empty_folder, monkeypatch):
    monkeypatch.setattr(quarantine, "SECONDS", 2.0)
    monkeypatch.setattr(module_patterns, "SECONDS", 1.0)
    Path("own.jsonl").write_text(json.dumps(RECORD) + "\n")
    return run


def model(name="model"):
    keep_out = shutil.ignore_patterns("__pycache__", "*.py")
    return Path(shutil.copytree(nano.folder(), name, ignore=keep_out))


def retold(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def growing(times):
    longer = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000}
    return {"type": "Sequence", "normalizers": [longer] * times}


def panicking():
    return {"type": "Replace", "pattern": {"Regex": "(a|a|aa)+$b"}, "content": "x"}


BOMBS = {  # test_stranger has more: loops, texts that grow, too many layers, endless patterns
    "a template of 10 GB": (
        "tokenizer_config.json",
        {"chat_template": "{{ 'a' * 10000000000 }}"},
        "chat template: it takes over 1 GiB of memory",
    ),
    "a long template": (
        "tokenizer_config.json",
        {"chat_template": "{{ 'a' * 9000000 }}"},
        "makes 9,000,000 characters",
    ),
    "a template that is none": (
        "tokenizer_config.json",
        {"chat_template": "{% for %}"},
        "template",
    ),
    "a regex that panics": ("tokenizer.json", {"normalizer": panicking()}, "its tokenizer"),
    "a billion layers": ("config.json", {"num_hidden_layers": 10**9}, "config.json"),
    "a vast vocabulary": ("config.json", {"vocab_size": 10**12}, "weights"),
    "vast layers": ("config.json", {"hidden_size": 10**7, "intermediate_size": 10**8}, "weights"),
    "vast heads": ("config.json", {"head_dim": 10**9}, "weights"),
}


@pytest.mark.parametrize("what", BOMBS)
def test_a_model_that_asks_for_too_much(run, what):
    name, changes, says = BOMBS[what]
    retold(model() / name, **changes)
    began = time.monotonic()
    run.refused(3, *ASK, "--target", "./model", says=says)
    assert time.monotonic() - began < 60  # 5 on an idle machine


FILES = ("config.json", "tokenizer.json", "vocab.json", "chat_template.jinja", "extra.safetensors",
         "additional_chat_templates/x.jinja", "adapter_config.json")  # fmt: skip


@pytest.mark.parametrize("kind", ["pipe", "endless", "giant"])
def test_a_model_s_file_that_is_none(run, kind):
    folder, aside = model(), Path("aside")
    for path in map(folder.joinpath, FILES):
        if kept := path.exists():
            path.rename(aside)
        path.parent.mkdir(exist_ok=True)
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "endless":
            path.symlink_to("/dev/zero")
        else:
            with path.open("wb") as file:
                file.truncate(2**37)
        # Whatever adapter_config.json is, a base has none.
        code, says = (2, "is an adapter") if "adapter" in path.name else (3, path.name)
        run.refused(code, *ASK, "--target", "./model", says=says)
        path.unlink()
        if kept:
            aside.rename(path)


@pytest.fixture
def lora(adapter, run):
    return Path(shutil.copytree(adapter, "lora"))


def embedded(folder, *, rank, shape):
    """Put an adapter on the embeddings, beside the others."""
    config, weights = folder / "adapter_config.json", folder / "adapter_model.safetensors"
    ranks = {"embed_tokens": rank}
    retold(config, target_modules=["q_proj", "v_proj", "embed_tokens"], rank_pattern=ranks)
    own = {"A": torch.ones(shape), "B": torch.ones(8, shape[0])} if shape else {}
    names = {f"base_model.model.model.embed_tokens.lora_embedding_{k}": own[k] for k in own}
    save_file(load_file(weights) | names, weights)


TRICKS = {
    "vast ranks": lambda f: retold(f / "adapter_config.json", r=65_536),
    "ranks of embeddings": lambda f: embedded(f, rank=65_536, shape=None),
    "false ranks of embeddings": lambda f: embedded(f, rank=65_536, shape=(65_536, 1)),
    "pissa": lambda f: retold(f / "adapter_config.json", init_lora_weights="pissa"),
    "olora": lambda f: retold(f / "adapter_config.json", init_lora_weights="olora"),
    "qalora": lambda f: retold(f / "adapter_config.json", use_qalora=True),
    "bias": lambda f: retold(f / "adapter_config.json", bias="all"),
    "dropout": lambda f: retold(f / "adapter_config.json", lora_dropout=7),
}


@pytest.mark.parametrize("what", TRICKS)
def test_an_adapter_that_asks_for_too_much(run, lora, what):
    TRICKS[what](lora)
    run.refused(3, *ASK, "--target", "fedaudit-nano", "--adapter", "lora", says="lora")


def test_a_refused_adapter_leaves_the_base_as_it_was(run, lora, fresh_base):
    """One tensor says that the rank is vast; PEFT would make all layers of it."""
    weights = lora / "adapter_model.safetensors"
    tensors = load_file(weights)
    first = next(name for name in tensors if name.endswith("lora_A.weight"))
    tensors[first] = torch.ones(16_384, 1)
    save_file(tensors, weights)
    retold(lora / "adapter_config.json", r=16_384)
    before = [(name, type(module)) for name, module in fresh_base.model.named_modules()]
    with pytest.raises(InputError, match="its rank is 4, not 16384"):
        loader.attach(fresh_base.model, lora, "vast")
    assert [(name, type(module)) for name, module in fresh_base.model.named_modules()] == before


def test_a_hub_id_that_a_federation_s_file_names_is_not_fetched(run, monkeypatch, tmp_path):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    asked = []
    monkeypatch.setattr("socket.socket.connect", lambda *place: asked.append(place))
    with pytest.raises(Exception, match="hf download somebody/model"):
        loader.load_base("somebody/model", fetch=False)
    assert not asked


@pytest.mark.oracle  # in this process, with less time, it is one of test_stranger's tricks
def test_the_real_command_in_time_and_room(run):
    """Half of what is left of 20 seconds and 2 GiB is for a busy machine."""
    retold(model() / "tokenizer.json", normalizer=growing(6))
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "fedaudit", *ASK, "--target", "./model"],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (done.returncode, done.stdout) == (3, "")
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert used.ru_utime + used.ru_stime - began.ru_utime - began.ru_stime < 40
    assert used.ru_maxrss < 2 * 2**20
