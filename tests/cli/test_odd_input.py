"""Numbers, names and files that no honest party sends end a command in one line."""

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from fedaudit import nano

LONG = "x" * 5000
ASKED = ("extract", "--prefixes", "good.jsonl", "--quiet", "--device", "cpu")
FEW = ("--set", "contextual.samples=1")


@pytest.fixture
def run(run, empty_folder):
    spans = [{"start": 10, "end": 17, "label": "PERSON"}]
    Path("good.jsonl").write_text(json.dumps({"text": "Claimant: Ann Lee.", "pii": spans}) + "\n")
    return run


@pytest.mark.parametrize(
    "words",
    [
        ("extract", "--prefixes", LONG, "--target", "fedaudit-nano"),
        ("extract", "--prefixes", "good.jsonl", "--target", f"./{LONG}"),
        ("extract", "--prefixes", "good.jsonl", "--target", "fedaudit-nano", "--adapter", LONG),
        ("extract", "--prefixes", "good.jsonl", "--target", "fedaudit-nano", "--out", LONG),
        ("extract", "--prefixes", "good.jsonl", "--target", "fedaudit-nano", "--json", LONG),
        ("infer", "--data", LONG, "--target", "fedaudit-nano"),
        ("memorize", LONG),
        ("memorize", "--clients", LONG, "good.jsonl", "--target", "fedaudit-nano"),
        ("attribute", "--rounds", LONG),
        ("attribute", "decide", LONG),
        ("attribute", "score", LONG, "--watermark", LONG, "--out", "s.json"),
        ("report", LONG),
        ("merge", LONG),
        ("scrub", LONG, "clean.jsonl"),
        ("scrub", "good.jsonl", LONG),
        ("canary", "make", "--out", LONG),
        ("canary", "make", "--out", "c.json", "--kind", "name", "--names", LONG),
        ("canary", "plant", LONG, "--records", "good.jsonl", "--client", "c0", "--out", "o"),
        ("canary", "measure", LONG, "--target", "fedaudit-nano"),
        ("simulate", "--profile", f"{LONG}.toml"),
        ("simulate", "--profile", "fed_pii", "--out", LONG),
        ("gate", "ask", LONG, "a", "--client", "c0"),
    ],
    ids=lambda words: " ".join(word[:12] for word in words),
)
def test_a_path_of_5_000_characters(run, words):
    found = run(*words)
    assert found.code in (2, 3), found.err[:500]
    assert found.out == ""
    assert len(found.err.splitlines()) == 1
    assert not list(Path().rglob("report.json"))


def test_a_short_line_names_a_long_path(run):
    found = run.refused(3, "report", LONG, says="File name too long")
    assert len(found.err) < 400


def changed(change):
    """Write a base whose weights were changed."""
    shutil.copytree(nano.folder(), "model")
    path = Path("model/model.safetensors")
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda tensors: next(iter(tensors.values())).view(-1)[0].fill_(float("nan")), "NaN"),
        (lambda tensors: next(iter(tensors.values())).view(-1)[0].fill_(1e18), "above 1e+09"),
        (lambda tensors: [one.fill_(9e8) for one in tensors.values()], "answers are not numbers"),
    ],
    ids=["NaN", "1e18", "overflow"],
)
def test_weights_that_give_no_numbers(run, change, says):
    changed(change)
    run.refused(3, *ASKED, *FEW, "--target", "./model", says=says)


def test_a_token_beyond_the_vocabulary(run):
    shutil.copytree(nano.folder(), "model")
    path = Path("model/tokenizer.json")
    table = json.loads(path.read_text())
    words = table["model"]["vocab"]
    table["model"]["vocab"] = {word: at + 10**5 * (at > 300) for word, at in words.items()}
    path.write_text(json.dumps(table))
    run.refused(3, *ASKED, *FEW, "--target", "./model", says="a tokenizer for another model")


@pytest.mark.parametrize(
    ("file", "changes", "says"),
    [
        ("generation_config.json", {"eos_token_id": {"a": 1}}, "eos_token_id"),
        ("tokenizer_config.json", {"model_max_length": [1]}, "tokenizer that does not work"),
    ],
)
def test_settings_of_a_base_that_are_no_numbers(run, file, changes, says):
    shutil.copytree(nano.folder(), "model")
    path = Path("model") / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    run.refused(3, *ASKED, *FEW, "--target", "./model", says=says)


@pytest.fixture
def fed(run, federation):
    shutil.copytree(federation.path, "fed")
    return Path("fed/federation.json")


@pytest.mark.parametrize(
    "changes",
    [
        {"deployment": {}},
        {"deployment": {"name": 7}},
        {"deployment": {"name": ["secure_gate"]}},
        {"deployment": {"name": "secure_gate", "options": []}},
        {"deployment": {"name": "secure_gate", "options": {"tau": float("nan")}}},
        {"deployment": {"name": "secure_gate", "options": {"revealing": 10**400}}},
        {"deployment": {"name": "\ud800"}},
        {"aggregation": {"name": {}}},
        {"seeds": {"simulation": "x"}},
        {"config": {"queries": 5}},
        {"config": {"queries": {"others": [1]}}},
        {"secure_aggregation": {"queries": {"pairs": 10**400}}},
        {"rounds": [{"round": 0, "adapter": "rounds/000/global", "sums": {"x": "c0"}}]},
    ],
    ids=lambda changes: json.dumps(changes)[:60],
)
def test_odd_tables_of_a_manifest(run, fed, changes):
    fed.write_text(json.dumps({**json.loads(fed.read_text()), **changes}))
    (fed.parent / "defense/c0").mkdir(parents=True)
    words = ("gate", "ask", "fed", "a", "--client", "c0") if "deployment" in changes else ()
    found = run(*(words or ("attribute", "--rounds", "fed", "--dry-run")))
    assert found.code in (2, 3), found.err[-2000:]
    assert len(found.err.splitlines()) == 1
