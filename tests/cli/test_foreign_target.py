"""Commands take another framework's folder as they take a federation's, with the same results."""

import json

import pytest
from command import Command
from foreign_layouts import (
    federatedscope,
    flowertune,
    make_run,
    native,
    openfedllm,
    peft,
    peft_folders,
    shepherd,
    trainer,
)

from fedaudit.conversion.foreign_targets import native_folder

pytestmark = pytest.mark.usefixtures("few_controls")

RUN = make_run(rounds=(1, 2))
RECORDS = {
    "ours": ["Claimant: Ann Lee, of 12 Mill Road", "Patient: Bo Chen, of 4 High Street"],
    "theirs": ["Claimant: Cy Dunn, of 9 Mill Road", "Patient: Di Ek, of 2 High Street"],
}


@pytest.fixture
def run(monkeypatch, capfd, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name, texts in RECORDS.items():
        rows = []
        for text in texts:
            begin, end = text.index(": ") + 2, text.index(",")
            spans = [{"start": begin, "end": end, "label": "PERSON"}]
            rows.append(json.dumps({"text": text, "pii": spans}))
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
    return Command(monkeypatch, capfd)


def extract(run, target, out, *more):
    words = ("--prefixes", "ours.jsonl", "--victim", "theirs.jsonl")
    asked = ("--set", "contextual.samples=3", "--set", "contextual.new_tokens=6")
    done = run("extract", "--target", target, *words, *asked, "--out", out, *more)
    assert done.code in (0, 1, 7), done
    return done, json.loads((out / "report.json").read_text())


@pytest.fixture(scope="module")
def wanted():
    """Return an empty dict; the first test that needs it puts the report of a federation there."""
    return {}


ORACLES = [pytest.param(w, marks=pytest.mark.oracle) for w in (openfedllm, trainer, peft_folders)]


@pytest.mark.parametrize(
    "write", [flowertune, shepherd, *ORACLES], ids=lambda write: write.__name__
)
def test_an_audit_of_a_foreign_folder_is_that_of_a_federation(run, tmp_path, write, wanted):
    if not wanted:
        wanted |= extract(run, native(RUN, tmp_path / "native"), tmp_path / "a")[1]
    assert run("import", write(RUN, tmp_path / "src"), "made", "--template", "fed_pii").code == 0
    _, found = extract(run, "made", tmp_path / "b")
    assert found["measurements"] == wanted["measurements"]
    assert found["findings"] == wanted["findings"]
    assert found["verdict"] == wanted["verdict"]
    assert wanted["measurements"]


def test_a_foreign_folder_is_a_target_and_is_imported_once(run, tmp_path):
    source = flowertune(RUN, tmp_path / "src")
    first, report = extract(run, source, tmp_path / "a")
    [line] = [line for line in first.err.splitlines() if "is imported" in line]
    assert line.startswith(f"{source} is imported (flowertune, rounds 1 to 2) into {tmp_path}/a/")
    [kept] = (tmp_path / "a/imported").iterdir()
    assert report["target"]["adapter"] == str(kept / "rounds/002/global")
    assert "Imported from the layout flowertune, as it was left." in report["limits"]
    before = (kept / "federation.json").stat().st_mtime_ns
    _, again = extract(run, source, tmp_path / "a")
    assert again["run"]["id"] == report["run"]["id"]
    assert (kept / "federation.json").stat().st_mtime_ns == before


def test_a_dry_run_of_a_foreign_folder_plans_it_and_writes_nothing(run, tmp_path):
    source = flowertune(RUN, tmp_path / "src")
    words = ("--prefixes", "ours.jsonl", "--victim", "theirs.jsonl", "--dry-run")
    before = sorted(tmp_path.rglob("*"))
    done = run("extract", "--target", source, *words)
    assert done.code == 0, done
    said = "".join(done.out.split())  # a long path is broken anywhere
    assert f"Model:fedaudit-nano,adapterofround2of{source},whichtheaudit" in said
    assert "Askedofthetunedmodelanditsbaseeach:" in said
    assert run("extract", "--target", source, *words, "--round", 1).code == 0
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("settings", ['{"lr": 1}', '{"model_type": "llama"}', "lr = 1"])
@pytest.mark.parametrize("write", [peft_folders, federatedscope], ids=lambda write: write.__name__)
def test_a_runs_own_settings_do_not_make_it_a_model(run, tmp_path, write, settings):
    source = write(RUN, tmp_path / "src")
    (source / "config.json").write_text(settings)
    words = ("--prefixes", "ours.jsonl", "--victim", "theirs.jsonl", "--dry-run")
    if write is peft_folders:
        assert run("extract", "--target", source, *words).code == 0
    else:
        run.refused(3, "extract", "--target", source, *words, says="does not say what its base is")


def test_a_model_without_weights_or_with_them_is_no_foreign_folder(run, tmp_path):
    source = tmp_path / "model"
    peft(RUN.whole[1], source / "round_1")
    (source / "config.json").write_text("{}")
    (source / "pytorch_model.bin").write_bytes(b"")
    words = ("extract", "--target", source, "--prefixes", "ours.jsonl")
    run.refused(3, *words, says="holds no model in safetensors: pytorch_model.bin may run code")
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare/config.json").write_text("{}")
    run.refused(3, *words[:2], "bare", *words[3:], says="bare holds no model in safetensors.")


def test_a_template_is_that_of_the_import(tmp_path):
    source = flowertune(RUN, tmp_path / "src")
    places = [native_folder(source, tmp_path, lambda _: None, template=t) for t in ("", "alpaca")]
    tables = [json.loads((place / "federation.json").read_text()) for place in places]
    assert [one["template"]["name"] for one in tables] == ["flowertune", "alpaca"]
    assert places[0] != places[1]


def test_a_round_and_a_template_of_a_foreign_folder_can_be_named(run, tmp_path):
    source = flowertune(make_run(rounds=(5, 10)), tmp_path / "src")
    _, report = extract(run, source, tmp_path / "a", "--round", "5", "--template", "alpaca")
    assert report["target"]["adapter"].endswith("rounds/005/global")
    [kept] = (tmp_path / "a/imported").iterdir()
    assert json.loads((kept / "federation.json").read_text())["template"]["name"] == "alpaca"
    words = ("extract", "--target", source, "--prefixes", "ours.jsonl", "--round", "7")
    done = run(*words)
    assert done.code == 2
    assert done.err.splitlines()[-1].endswith("has rounds 5 and 10, no round 7.")


def test_what_changes_or_becomes_unreadable_is_imported_anew(tmp_path):
    source = flowertune(RUN, tmp_path / "src")
    third, found = next(source.iterdir()) / "peft_3", []
    for change in (lambda: None, third.mkdir, lambda: peft(make_run(rounds=(3,)).whole[3], third)):
        change()
        folder = native_folder(source, tmp_path, lambda _: None)
        notes = json.loads((folder / "federation.json").read_text())["imported"]["notes"]
        is_left_out = "peft_3 is left out: it is empty." in notes
        found.append((is_left_out, (folder / "rounds/003/global").exists()))
    assert found == [(False, False), (True, False), (False, True)]


def test_what_the_files_do_not_say_is_asked_for(run, tmp_path):
    source = federatedscope(RUN, tmp_path / "src")
    words = ("extract", "--target", source, "--prefixes", "ours.jsonl")
    run.refused(3, *words, says="name it and LoRA's settings with --base FOLDER --config r=16")
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_nobody_knows_is_named_with_what_is_in_it(run, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/x.h5").write_text("")
    words = ("extract", "--target", "a", "--prefixes", "ours.jsonl")
    run.refused(3, *words, says="a is neither a federation (federation.json) nor a model, and has "
                "no layout that fedaudit knows: it holds 1 file (1 x .h5).")  # fmt: skip


def test_attribution_asks_for_every_round(run, tmp_path):
    source = flowertune(RUN, tmp_path / "src")
    done = run("attribute", "--rounds", source, "--watermark", "marks.json")
    assert done.code == 3
    assert "has rounds 1 to 2 only: attribution needs all of them, from 0 on" in done.err
    assert len(done.err.splitlines()) == 2  # that it was imported, and that


def test_attribution_plans_the_sums_of_shepherds_epochs(run, tmp_path):
    epochs = make_run(rounds=(0, 1, 2), clients=(0, 1, 2, 3), examples=(10, 10, 10, 10))
    source = shepherd(epochs, tmp_path / "src")
    words = ("--out", "estimates", "--dry-run", "--others", 2, "--queries", 1, "--threshold", 2)
    done = run("attribute", "estimate", "--rounds", source, *words)
    assert done.code == 0, done
    assert done.out.startswith("16 sums in rounds 1, 2: 1 pairs for each client, 2 others in a set")
    # Each working directory would have an import of its own, with a ledger of its own.
    asked = ("attribute", "estimate", "--rounds", source, *words[:2], *words[3:])
    run.refused(3, *asked, says=f"import it once (`fedaudit import {source} FED`) and give FED")
    assert not (tmp_path / "estimates").exists()
    assert run("import", source, "made").code == 0
    assert run(*asked[:3], "made", *asked[4:], "--quiet").code == 0
    assert (tmp_path / "made/ledger.jsonl").is_file()
