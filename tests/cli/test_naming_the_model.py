"""What is audited is named alike in every command: by its place or by --target."""

from pathlib import Path

import pytest

LINE = '{"text": "Ann Lee of York wrote.", "pii": [{"start": 0, "end": 7, "label": "PERSON"}]}\n'
COMMANDS = {
    "audit": (("audit",), ("--ours", "ours.jsonl", "--theirs", "theirs.jsonl", "--dry-run")),
    "extract": (("extract",), ("--ours", "ours.jsonl", "--theirs", "theirs.jsonl")),
    "infer": (("infer",), ("--data", "ours.jsonl")),
    "memorize": (("memorize",), ()),
    "canary": (("canary", "measure", "c.json"), ()),
    "dp": (("dp", "audit", "c.json"), ("--epsilon", 1)),
}


@pytest.fixture
def run(run, empty_folder):
    for name in ("ours", "theirs"):
        Path(f"{name}.jsonl").write_text(LINE)
    Path("c.json").write_text("{}")
    Path("empty").mkdir()
    return run


@pytest.mark.parametrize("name", COMMANDS)
def test_by_its_place_as_by_target(run, name):
    words, options = COMMANDS[name]
    by_place = run(*words, "empty", *options)
    by_target = run(*words, "--target", "empty", *options)
    assert by_place == by_target
    assert by_place.code in (2, 3)


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "memorize"])
def test_one_name_that_is_no_file(run, name):
    words, options = COMMANDS[name]
    run.refused(2, *words, "a", "--target", "b", *options, says="both name what is audited")
    says = "ours.jsonl belongs to no option"
    run.refused(2, *words, "ours.jsonl", *options, says=says)


def test_what_a_message_says_to_type_can_be_typed(run, adapter):
    words = ("audit", adapter, "--ours", "ours.jsonl", "--theirs", "theirs.jsonl")
    outcome = run(*words)
    assert outcome.code == 2
    typed = ("--target", "fedaudit-nano", "--adapter", str(adapter))
    said = " ".join(typed).replace("fedaudit-nano", "BASE")
    assert f"name its base, too, with {said}." in outcome.err
    assert run("audit", *typed, *words[2:], "--dry-run", "--device", "cpu").code == 0


def test_memorize_takes_a_model_by_its_place_beside_files_of_clients(run, adapter):
    words = ("memorize", "fedaudit-nano", "--adapter", adapter, "--clients")
    run.refused(3, *words, "ours.jsonl", "gone.jsonl", says="gone.jsonl")
    Path("base").mkdir()
    words = ("memorize", "base", "--clients", "ours.jsonl", "theirs.jsonl")
    run.refused(3, *words, says="base is neither a federation")
    run.refused(2, *words, "--target", "other", says="both name what is audited")
