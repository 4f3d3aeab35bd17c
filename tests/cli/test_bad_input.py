"""Every mistake is one clear line and the documented exit code."""

import io
import json
import shutil
import socket
import sys
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants
from huggingface_hub.errors import LocalEntryNotFoundError

from fedaudit import nano
from fedaudit.engine.loading import loader, module_patterns
from fedaudit.federation import manifest as manifests

GOOD = json.dumps(
    {"text": "Claimant: Ann Lee.", "pii": [{"start": 10, "end": 17, "label": "PERSON"}]}
)

HANGS = r"(([a-z_.0-9]+)+)+!"
"""Takes longer than the universe for a name of thirty letters."""


@pytest.fixture(autouse=True)
def records(empty_folder):
    Path("good.jsonl").write_text(GOOD + "\n")


@pytest.fixture
def fed(federation, run, tmp_path):
    shutil.copytree(federation.path, tmp_path / "fed")
    return tmp_path / "fed"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "There is no file"),
        (b"", "holds no record"),
        (GOOD.encode() + b"\nnot json\n", "line 2: not JSON"),
        (b'{"text": "caf\xe9"}\n', "line 1: not UTF-8"),
        (b'{"text": "abc", "pii": [{"start": 1, "end": 9, "label": "X"}]}', "not inside the text"),
        (b'{"text": "abcdef", "pii": [{"start": 0, "end": 3, "label": "X"},'
         b' {"start": 2, "end": 5, "label": "X"}]}', "overlap"),
        (json.dumps({"prefix": "word " * 3000}).encode(), "more than the context"),
        (b'{"text": "nothing personal", "pii": []}', "nothing to ask"),
    ],
)  # fmt: skip
def test_bad_prefixes(run, content, says):
    if content is not None:
        Path("bad.jsonl").write_bytes(content)
    words = ("extract", "--prefixes", "bad.jsonl", "--target", "fedaudit-nano", "--quiet")
    run.refused(3, *words, says=says)
    assert not list(Path().rglob("report.json"))


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("simulate", "--profile", "fed_pi"), 2, "Did you mean 'fed_pii'?"),
        (("simulate", "--profile", "fed_pii", "--set", "rouns=3"), 2, "Did you mean 'rounds'?"),
        (("simulate", "--profile", "fed_pii", "--set", "rounds=many"), 2, "takes int"),
        (("simulate", "--profile", "fed_pii", "--set", "rounds=0"), 2, "at least 1"),
        (("simulate", "--profile", "fed_pii", "--set", "aggregation=fedag"), 2, "'fedavg'?"),
        (("simulate", "--profile", "fed_pii", "--set", "template=alpac"), 2, "'alpaca'?"),
        (("simulate", "--profile", "fed_pii", "--scale", "nan"), 2, "'nano'?"),
        (("simulate", "--profile", "fed_pii", "--set", "data=none.jsonl"), 3, "no file none.jsonl"),
        (("simulate", "--profile", "fed_pii", "--set", "base=./none"), 3, "none"),
        (("simulate", "--profile", "fed_pii", "--resume"), 2, "no run"),
        (("simulate",), 2, "--profile"),
        (("reproduce", "fed_pi"), 2, "Did you mean 'fed_pii'?"),
        (("extract", "--prefixes", "good.jsonl"), 2, "no --target"),
        (("extract", "--prefixes", "good.jsonl", "--attack", "contextal"), 2, "'contextual'?"),
        (("extract", "--prefixes", "good.jsonl", "--set", "contextual.sampels=3"), 2,
         "Did you mean 'samples'?"),
        (("extract", "--prefixes", "good.jsonl", "--detector", "presido"), 2, "'presidio'?"),
        (("extract", "--prefixes", "good.jsonl", "--target", "./none"), 3, "no target"),
        (("extract", "--prefixes", "good.jsonl", "--target", "good.jsonl"), 3, "is a file"),
        (("extract", "--prefixes", "good.jsonl", "--target", "./god.jsonl"), 3, "'good.jsonl'?"),
        (("extract", "--prefixes", "good.jsonl", "--target", "."), 3, "neither a federation"),
        (("report", "none"), 3, "none"),
        (("report", "good.jsonl"), 3, "good.jsonl"),
        (("plugins", "contextal"), 2, "Did you mean 'contextual'?"),
        (("profiles", "fed_pi"), 2, "Did you mean 'fed_pii'?"),
        (("frobnicate",), 2, "frobnicate"),
    ],
)  # fmt: skip
def test_mistakes_on_the_command_line(run, words, code, says):
    run.refused(code, *words, says=says)
    assert sorted(path.name for path in Path().iterdir()) in (
        ["good.jsonl"],
        ["good.jsonl", "runs"],
    )


# a base on the hub


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Return the hub's cache, empty; nothing can be reached."""

    def nowhere(*_):
        raise OSError("no socket may be opened")

    monkeypatch.setattr(socket.socket, "connect", nowhere)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path / "hub"


def cached(hub, name):
    """Put the built-in model into the hub's cache under another name."""
    place = hub / f"models--{name.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs/main").write_text("1" * 40)
    shutil.copytree(nano.folder(), place / "snapshots" / ("1" * 40))


ASKED = ("extract", "--prefixes", "good.jsonl", "--quiet", "--set", "contextual.samples=1")


@pytest.mark.parametrize("name", ["gpt2", "owner/gpt2"])
def test_a_target_that_is_no_folder_is_looked_for_on_the_hub(run, hub, name):
    says = f"The base {name!r} is not a folder, is not in the hub's cache and cannot be fetched"
    found = run.refused(4, *ASKED, "--target", name, says=says)
    assert "HF_HUB_OFFLINE" in found.err
    cached(hub, name)
    # Nobody is named whose data may leak: there is nothing to judge.
    assert run(*ASKED, "--target", name, "--json", "o.json").code == 7
    assert json.loads(Path("o.json").read_text())["target"]["base"] == name


def test_what_the_cache_does_not_have_is_fetched(hub, monkeypatch, tmp_path):
    asked = []

    def snapshot_download(name, *, local_files_only=False, **_):
        asked.append((name, local_files_only))
        if local_files_only:
            raise LocalEntryNotFoundError("not here")
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    assert loader.locate("gpt2") == tmp_path
    assert asked == [("gpt2", True), ("gpt2", False)]


def test_a_mistyped_folder_is_named_with_the_nearest(run, hub):
    for name in ("runs/fed_pii", "gpt-2"):
        Path(name).mkdir(parents=True)
    asked = (*ASKED, "--target")
    run.refused(3, *asked, "runs/fed_pi", says="no target runs/fed_pi. Did you mean 'runs/fed_pii'")
    run.refused(3, *asked, "./runs/fed_pi", says="Did you mean 'runs/fed_pii'?")
    run.refused(3, *asked, "runs/a/b", says="There is no target runs/a/b.")
    run.refused(4, *asked, "gpt2", says="Did you mean 'gpt-2'?")


def damaged(fed, how):
    adapter = fed / "rounds/002/global"
    if how == "missing round":
        shutil.rmtree(adapter)
    elif how == "hash":
        with (fed / "data/c0.jsonl").open("a") as file:
            file.write(GOOD + "\n")
    elif how == "pickled":
        (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model.bin")
    elif how == "gap":
        table = json.loads((fed / manifests.NAME).read_text())
        del table["rounds"][1]
        (fed / manifests.NAME).write_text(json.dumps(table))
    elif how == "empty":
        (fed / manifests.NAME).write_text("{}")
    elif how == "base":
        table = json.loads((fed / manifests.NAME).read_text())
        table["base"]["sha256"] = "0" * 64
        (fed / manifests.NAME).write_text(json.dumps(table))


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("missing round", "misses round 2"),
        ("hash", "SHA-256"),
        ("pickled", "pickle"),
        ("gap", "misses round 1"),
        ("empty", "federation.json"),
        ("base", "another base than the one that the federation was trained on"),
    ],
)
def test_damaged_federations(run, fed, how, says):
    damaged(fed, how)
    run.refused(3, "extract", "--prefixes", "good.jsonl", "--target", fed, "--quiet", says=says)


def test_nan_weights(run, fed):
    import torch
    from safetensors.torch import load_file, save_file

    path = fed / "rounds/002/global/adapter_model.safetensors"
    tensors = load_file(path)
    next(iter(tensors.values()))[0, 0] = torch.nan
    save_file(tensors, path)
    words = ("extract", "--prefixes", "good.jsonl", "--target", "fedaudit-nano", "--quiet")
    run.refused(3, *words, "--adapter", path.parent, says="NaN")


def test_an_adapter_for_another_base(run, fed):
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    from fedaudit import nano

    config = LlamaConfig(
        vocab_size=4096, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=256,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained("other")
    AutoTokenizer.from_pretrained(nano.folder()).save_pretrained("other")
    words = ("extract", "--prefixes", "good.jsonl", "--target", "./other", "--quiet")
    run.refused(3, *words, "--adapter", fed / "rounds/002/global", says="another base")


def test_a_bug_keeps_its_traceback_and_ends_with_70(run, monkeypatch):
    from fedaudit.config import profile

    monkeypatch.setattr(profile, "shipped_profiles", lambda: 1 / 0)
    outcome = run("profiles")
    assert outcome.code == 70
    assert "ZeroDivisionError" in outcome.err
    assert "bug in fedaudit" in outcome.err


def test_what_cannot_be_written_is_said_before_any_work(run, tmp_path):
    Path("afile").write_text("")
    words = ("extract", "--prefixes", "good.jsonl", "--target", "fedaudit-nano")
    run.refused(3, *words, "--out", "afile/sub", says="afile")
    run.refused(3, *words, "--out", "/proc/nope", says="/proc")
    run.refused(3, *words, "--json", ".", says="is a folder; a file is needed")
    run.refused(3, *words, "--json", "afile/x.json", says="afile")
    assert not list(Path().rglob("report.json"))


@pytest.mark.parametrize(
    "changes",
    [
        *({name: "*"} for name in ("target_modules", "exclude_modules")),
        *({name: {"*": 3}} for name in ("rank_pattern", "alpha_pattern")),
        *({name: "x"} for name in ("rank_pattern", "alpha_pattern", "r", "lora_alpha")),
        *({"r": rank} for rank in (10**7, None, 0)),
        *({"lora_alpha": alpha} for alpha in (float("nan"), float("inf"), 1e308, -8)),
        {"alpha_pattern": {"q_proj": float("nan")}},
        {"rank_pattern": {"q_proj": 10**9}},
        *({"init_lora_weights": name} for name in ("pissa", "olora")),
        *({"bias": "junk"}, {"lora_dropout": 7}, {"use_qalora": True}),
        {"modules_to_save": ["lm_head"]},
        {"layer_replication": [[0, 1]] * 1000},
        {"megatron_config": {"a": 1}, "megatron_core": "evil"},
        *({name: HANGS} for name in ("target_modules", "exclude_modules")),
        *({name: {HANGS: 3}} for name in ("rank_pattern", "alpha_pattern")),
        {"layers_pattern": HANGS, "layers_to_transform": [0]},
    ],
    ids=lambda changes: json.dumps(changes)[:50],
)
def test_broken_adapter_configurations(run, adapter, changes, monkeypatch):
    monkeypatch.setattr(module_patterns, "SECONDS", 0.2 if HANGS in json.dumps(changes) else 1.0)
    path = shutil.copytree(adapter, Path("lora")) / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    words = ("extract", "--prefixes", "good.jsonl", "--target", "fedaudit-nano", "--quiet")
    run.refused(3, *words, "--adapter", path.parent)


def test_a_refused_input_leaves_no_folder_and_no_key(run):
    Path("empty.jsonl").write_text("")
    words = ("extract", "--prefixes", "empty.jsonl", "--target", "fedaudit-nano")
    run.refused(3, *words, "--out", "o")
    assert sorted(path.name for path in Path().iterdir()) == ["empty.jsonl", "good.jsonl"]


def test_a_wrong_attack_is_named_not_its_options(run):
    words = ("extract", "--prefixes", "good.jsonl", "--set", "contextual.samples=1")
    run.refused(2, *words, "--attack", "contxtual", says="Did you mean 'contextual'?")


def test_a_pipe_nobody_writes_into_is_refused(run):
    import os

    os.mkfifo("fifo")
    run.refused(3, "extract", "--prefixes", "fifo", "--target", "fedaudit-nano", says="regular")


def test_a_base_with_weights_that_nobody_trained(run):
    from safetensors.torch import load_file, save_file

    from fedaudit import nano

    shutil.copytree(nano.folder(), "model")
    path = Path("model/model.safetensors")
    tensors = {f"x.{name}": tensor for name, tensor in load_file(path).items()}
    save_file(tensors, path, metadata={"format": "pt"})
    words = ("extract", "--prefixes", "good.jsonl", "--target", "./model", "--quiet")
    run.refused(3, *words, says="39 of its tensors are missing")


def test_a_model_s_code_is_not_even_asked_about(run, monkeypatch):
    from fedaudit import nano

    shutil.copytree(nano.folder(), "model")
    Path("model/evil.py").write_text("open('witness', 'w')\nclass C: pass\n")
    table = json.loads(Path("model/config.json").read_text())
    table |= {"model_type": "unheard-of", "auto_map": {"AutoConfig": "evil.C"}}
    Path("model/config.json").write_text(json.dumps(table))
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 9))
    words = ["extract", "--prefixes", "good.jsonl", "--target", "./model", "--device", "cpu"]
    run.refused(3, *words, says="custom code")
    assert sys.stdin.read(2) == "y\n"
    assert not Path("witness").exists()
