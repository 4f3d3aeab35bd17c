"""An adapter without a target is audited on the base that it names, if that is on this machine."""

import json

import pytest
from command import Command

RECORD = {"text": "Claimant: Ann Lee", "pii": [{"start": 10, "end": 17, "label": "PERSON"}]}
WORDS = ("--prefixes", "ours.jsonl", "--set", "contextual.samples=1", "--out", "out")


@pytest.fixture
def run(monkeypatch, capfd, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ours.jsonl").write_text(json.dumps(RECORD) + "\n")
    return Command(monkeypatch, capfd)


@pytest.fixture
def naming(adapter, tmp_path):
    """Return a function that copies an adapter and has it name a base."""

    def write(base, **options):
        folder = tmp_path / "lora"
        folder.mkdir()
        (folder / "adapter_model.safetensors").write_bytes(
            (adapter / "adapter_model.safetensors").read_bytes()
        )
        config = json.loads((adapter / "adapter_config.json").read_text())
        config |= {"base_model_name_or_path": base, **options}
        (folder / "adapter_config.json").write_text(json.dumps(config))
        return folder

    return write


def test_the_base_that_it_names_is_taken_and_said(run, naming):
    done = run("extract", "--adapter", naming("fedaudit-nano"), *WORDS)
    assert done.code in (0, 1, 7), done
    assert "lora on fedaudit-nano, the base that it names." in done.err


def test_every_step_of_an_audit_has_that_base(run, naming):
    done = run("audit", "--adapter", naming("fedaudit-nano"), "--quick", *WORDS)
    assert done.code in (0, 1, 7), done
    assert "lora on fedaudit-nano, the base that it names." in done.err


def test_options_that_peft_does_not_know_are_among_the_limits(run, naming, tmp_path):
    run("extract", "--adapter", naming("fedaudit-nano", use_tomorrow=True), *WORDS)
    limits = json.loads((tmp_path / "out/report.json").read_text())["limits"]
    assert any("sets 'use_tomorrow', which peft" in limit for limit in limits)


def test_a_folder_counts_from_where_one_stands(run, naming, base, tmp_path):
    (tmp_path / "llama").symlink_to(base.path)
    done = run("extract", "--adapter", naming("llama"), *WORDS)
    assert done.code in (0, 1, 7), done
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["target"]["base"] == str(tmp_path / "llama")
    assert report["target"]["sha256"]


@pytest.mark.parametrize(
    ("named", "says"),
    [
        (
            "meta-llama/Llama-2-7b",
            "names the base 'meta-llama/Llama-2-7b', which is not a folder here",
        ),
        (None, "names no base: name it with --target."),
        ("../../etc", "which is not a folder here: name it with --target."),
    ],
)
def test_no_file_has_a_model_fetched(run, naming, named, says):
    run.refused(2, "extract", "--adapter", naming(named), *WORDS, says=says)


def test_a_federation_of_another_base_is_not_what_is_meant(run, naming, base, tmp_path, federation):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/small").symlink_to(federation.path)
    (tmp_path / "llama").symlink_to(base.path)
    folder = naming("llama")
    done = run("extract", "--adapter", folder, *WORDS)
    assert f"Auditing {folder} on {tmp_path / 'llama'}, the base that it names." in done.err
    again = run("extract", "--adapter", folder, "--target", "runs/small", *WORDS[:-1], "other")
    assert again.code in (0, 1, 7), again
    assert "that it names" not in again.err
