"""An adapter without a target is audited on the base that it names, if that is on this machine."""

import json

import pytest

RECORD = {"text": "Claimant: Ann Lee", "pii": [{"start": 10, "end": 17, "label": "PERSON"}]}
WORDS = ("--prefixes", "ours.jsonl", "--set", "contextual.samples=1", "--out", "out")


@pytest.fixture(autouse=True)
def records(empty_folder):
    (empty_folder / "ours.jsonl").write_text(json.dumps(RECORD) + "\n")


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


def test_the_base_that_it_names_is_taken_and_said(run, naming, tmp_path):
    done = run("extract", "--adapter", naming("fedaudit-nano", use_tomorrow=True), *WORDS)
    assert done.code in (0, 1, 7), done
    assert "lora on fedaudit-nano, the base that it names." in done.err
    limits = json.loads((tmp_path / "out/report.json").read_text())["limits"]
    assert any("sets 'use_tomorrow', which peft" in limit for limit in limits)


def test_every_step_of_an_audit_has_that_base(run, naming):
    done = run("audit", "--adapter", naming("fedaudit-nano"), "--quick", *WORDS)
    assert done.code in (0, 1, 7), done
    assert "lora on fedaudit-nano, the base that it names." in done.err


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
    assert done.code in (0, 1, 7), done
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["target"]["base"] == str(tmp_path / "llama")  # counted from where one stands
    assert report["target"]["sha256"]
    assert f"Auditing {folder} on {tmp_path / 'llama'}, the base that it names." in done.err
    again = run("extract", "--adapter", folder, "--target", "runs/small", *WORDS[:-1], "other")
    assert again.code in (0, 1, 7), again
    assert "that it names" not in again.err
