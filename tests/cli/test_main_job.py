"""simulate and extract from an empty folder, as a newcomer would."""

import json
import os
import random
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import fork
import pytest

from fedaudit.api.templates import template
from fedaudit.data import corpus
from fedaudit.report.document import validate

pytestmark = pytest.mark.usefixtures("few_controls")

SMALL = (
    "--set=clients=2",
    "--set=rounds=2",
    "--set=training.steps=12",
    "--set=training.max_length=64",
    "--set=records.cases=3",
    "--set=records.documents_per_case=4",
    "--set=evaluated=3",
    "--set=workers=1",
)

QUICK = (*SMALL, "--set=training.steps=2", "--set=evaluated=1", "--set=central=false")
C0, C1 = "runs/fed_pii/data/c0.jsonl", "runs/fed_pii/data/c1.jsonl"
FEW = ("--set", "contextual.samples=5")

NO_SOCKETS = """
import socket, sys
def refuse(*words, **options):
    raise AssertionError("a socket was opened")
socket.socket.connect = socket.socket.connect_ex = socket.create_connection = refuse
socket.getaddrinfo = refuse
from fedaudit.cli import main
from fedaudit.extraction import learned, positive_controls, prefix_attack
prefix_attack.CONTROLS, learned.MAX_TARGETS, positive_controls.MAX_KNOWN = 100, 8, 8
for words in " ".join(sys.argv[1:]).split(" then "):
    sys.argv = ["fedaudit", *words.split()]
    try:
        main()
    except SystemExit as end:
        if end.code not in (0, 1, 7):
            raise
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working directory with one small simulated federation in it, and an audit of it.

    Both are made in a new interpreter in which nothing can open a connection.
    """
    place = tmp_path_factory.mktemp("work")
    (place / "mail.jsonl").write_text('{"text": "Write to ann@example.org about it, please."}\n')
    words = ["simulate", "--profile", "fed_pii", *SMALL, "then", "extract", *FEW, "--quiet"]
    words += ["--prefixes", "mail.jsonl", "--victim", C1, "--out", "mailed"]
    command = [sys.executable, "-c", NO_SOCKETS, *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=place)
    assert done.returncode == 0, done.stderr
    (place / "said").write_text(done.stderr)
    return place


@pytest.fixture
def here(folder, tmp_path, monkeypatch):
    """A copy of that directory, to do as one likes with."""
    shutil.copytree(folder / "runs", tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def attacked(folder):
    """That directory with an audit in `audit`, and what the command printed."""
    words = ["fedaudit", *ASK, "--json", "out.json", "--out", "audit", "--reveal"]
    return fork.program(FEW_CONTROLS.format(words=words), real=True, cwd=folder)


@pytest.fixture
def audited(attacked, folder, here):
    """What the command printed whose audit lies in a copy of its directory."""
    shutil.copytree(folder / "audit", here / "audit")
    shutil.copy(folder / "out.json", here)
    return attacked


FEW_CONTROLS = """
import sys
from fedaudit.extraction import learned, positive_controls, prefix_attack
from fedaudit.__main__ import main
prefix_attack.CONTROLS, learned.MAX_TARGETS, positive_controls.MAX_KNOWN = 100, 8, 8
sys.argv = {words}
main()
"""
ASK = ("extract", "--prefixes", C0, "--victim", C1, *FEW)
ATTACK = (*ASK, "--quiet")


def figures(path):
    report = json.loads(Path(path).read_text())
    return report["measurements"], [
        (f["severity"], f["label"], f["evidence"]["outputs"]) for f in report["findings"]
    ]


def pii(path):
    documents = corpus.read(Path(path), template("fed_pii"))
    return {text for document in documents for text, _ in document.strings()}


def test_simulate_leaves_a_whole_federation_with_a_valid_report(folder):
    place = folder / "runs/fed_pii"
    validate(json.loads((place / "report.json").read_text()))
    manifest = json.loads((place / "federation.json").read_text())
    assert manifest["status"] == "complete"
    assert [r["round"] for r in manifest["rounds"]] == [0, 1, 2]
    assert [c["id"] for c in manifest["clients"]] == ["c0", "c1"]
    assert all((place / name).is_file() for name in manifest["files"])


def test_simulate_measures_base_tuned_and_central(here):
    rows = json.loads((here / "runs/fed_pii/report.json").read_text())["measurements"]
    losses = {r["scope"]["source"]: r["value"] for r in rows if r["metric"] == "loss"}
    assert set(losses) == {"base", "tuned", "central"}
    assert losses["tuned"] < losses["base"]


def test_the_same_simulation_again_changes_nothing(here, run):
    before = (here / "runs/fed_pii/federation.json").read_bytes()
    outcome = run("simulate", "--profile", "fed_pii", *SMALL)
    assert outcome.code == 0
    assert "already holds this federation, complete" in outcome.err
    assert "Utility" in outcome.out
    assert (here / "runs/fed_pii/federation.json").read_bytes() == before
    assert run("report", "runs/fed_pii", "--format", "html").code == 0
    assert "<title>A simulated federation" in Path("runs/fed_pii/report.html").read_text()


def test_another_simulation_does_not_overwrite_it(here, run):
    run.refused(3, "simulate", "--profile", "fed_pii", *SMALL, "--seed", 5, says="differs in seed")


def test_extract_finds_the_last_federation_and_scores_all_sources(here, audited):
    assert audited.returncode in (0, 1, 7)
    assert "Auditing runs/fed_pii, the federation of the data" in audited.stderr
    report = json.loads((here / "out.json").read_text())
    validate(report)
    totals = {
        (r["scope"]["source"], r["scope"]["set"])
        for r in report["measurements"]
        if r["metric"] == "coverage" and "label" not in r["scope"]
    }
    sources = ("tuned", "base", "tuned-not-base", "control")
    paper = {(s, t) for s in sources for t in ("all", "prefix-disjoint")}
    assert totals == paper | {(s, "exclusive") for s in (*sources, "base-not-tuned", "known")}
    assert report["target"]["effect"]["largest_change"] > 0.1
    assert report["target"]["beginning"]["start"] in ("bos", "bare")
    assert (audited.returncode == 1) == (report["verdict"]["status"] == "fail")
    assert max(map(len, audited.stdout.splitlines())) <= 80
    assert "\x1b" not in audited.stdout


def test_the_federation_of_the_data_is_meant_before_the_one_written_last(here, run):
    shutil.copytree("runs/fed_pii", "runs/later")
    Path("runs/later/federation.json").touch()
    Path("own.jsonl").write_bytes(Path(C0).read_bytes())
    first = ("--round", 0)  # which is refused after that is said
    found = run("extract", "--prefixes", C0, *first)
    assert "Auditing runs/fed_pii, the federation of the data" in found.err
    later = run("extract", "--prefixes", "own.jsonl", *first)
    assert "Auditing runs/later, the federation written last" in later.err


def test_audit_says_which_federation_it_found(here, run):
    says = "Auditing runs/fed_pii, the federation written last.\n"
    assert run("audit", "--dry-run").err == says
    assert run("audit", "runs/fed_pii", "--dry-run").err == ""


def test_batch_size_and_order_of_the_input_change_no_figure(here, audited, run):
    lines = (here / C0).read_text().splitlines(keepends=True)
    random.Random(1).shuffle(lines)
    (here / "shuffled.jsonl").write_text("".join(lines))
    run(*ATTACK, "--prefixes", "shuffled.jsonl", "--batch-size", 7, "--out", "other")
    (rows, found), (others, other_found) = map(figures, ("out.json", "other/report.json"))
    assert other_found == found
    for row, other in zip(rows, others, strict=True):
        # What the base is likely to say is a sum of float32 scores, whose last bits depend on
        # the shape of a batch; whatever is counted does not.
        scored = row["metric"] in ("chance", "p_value")
        value = pytest.approx(row["value"], rel=1e-5) if scored else row["value"]
        assert other == row | {"value": value}


def test_no_pii_stands_in_anything_but_the_revealed_file(here, audited, run):
    # Short names may stand in any text by chance; the rest identifies.
    secrets = {text for text in pii(C1) | pii(C0) if len(text) > 3}
    for form in ("html", "markdown"):
        assert run("report", "audit", "--format", form, "--out", f"audit/r.{form}").code == 0
    texts = [audited.stdout, audited.stderr, Path("out.json").read_text()]
    texts += [p.read_text() for p in Path("audit").iterdir() if p.name != "revealed.jsonl"]
    assert not [s for s in secrets for text in texts if s in text]
    revealed = Path("audit/revealed.jsonl")
    assert stat.S_IMODE(revealed.stat().st_mode) == 0o600
    leaks = [json.loads(line) for line in revealed.read_text().splitlines()]
    assert leaks
    assert {leak["text"] for leak in leaks} <= pii(C1)


def test_without_a_victim_candidates_are_ranked_and_called_unverified(here, run):
    outcome = run("extract", "--prefixes", C0, "--quiet", "--out", "audit", *FEW)
    report = json.loads(Path("audit/report.json").read_text())
    assert outcome.code == 7
    assert report["verdict"]["status"] == "inconclusive"
    beliefs = [f["evidence"]["belief"] for f in report["findings"]]
    assert len(beliefs) > 5
    assert beliefs == sorted(beliefs, key=lambda belief: -(belief or 0))
    assert all(f["evidence"]["gain"] > 0 for f in report["findings"])
    precision = [r for r in report["measurements"] if r["metric"] == "precision"]
    assert precision
    assert all(r["reason"] or r["low"] <= r["value"] <= r["high"] for r in precision)
    assert "What an attacker would believe" in outcome.out
    assert {f["severity"] for f in report["findings"]} == {"unverified"}
    assert "cannot know which candidates are true" in " ".join(outcome.out.split())
    coverage = next(r for r in report["measurements"] if r["metric"] == "coverage")
    assert coverage["value"] is None
    assert coverage["reason"]


def test_a_ready_made_prefix_is_asked_as_it_is(here, run):
    Path("asked.jsonl").write_text('{"prefix": "Claimant:"}\n{"prefix": "被告"}\n')
    outcome = run("extract", "--prefixes", "asked.jsonl", "--victim", C1, "--json", "o.json", *FEW)
    assert outcome.code in (0, 1, 7)
    rows = json.loads(Path("o.json").read_text())["measurements"]
    assert {r["value"] for r in rows if r["metric"] == "queries"} == {10}


def test_the_initial_adapter_has_no_effect_and_stops_the_audit(here, run):
    run.refused(5, *ATTACK, "--round", 0, says="no effect")


def test_the_base_alone_can_be_asked_and_other_data_of_the_same_name_are_another_run(here, run):
    lines = Path(C0).read_text().splitlines(keepends=True)
    Path("a.jsonl").write_text("".join(lines))
    words = ("extract", "--prefixes", "a.jsonl", "--victim", C1, "--quiet", "--out", "o", *FEW)
    words = (*words, "--target", "fedaudit-nano", "--json", "o.json")
    outcome = run(*words)
    assert outcome.code == 7
    rows = json.loads(Path("o.json").read_text())["measurements"]
    assert {r["scope"].get("source") for r in rows} == {"tuned", "control", "known", None}
    assert {r["metric"] for r in rows if "source" not in r["scope"]} == {"targets"}
    assert "no base to compare with" in outcome.out
    assert run(*words).code == 7, "the same run again"
    Path("a.jsonl").write_text("".join(lines[:2]))
    run.refused(3, *words, says="another run")


def test_an_output_folder_of_another_run_is_refused(here, audited, run):
    run.refused(3, *ATTACK, "--out", "audit", "--seed", 9, says="another run")
    run.refused(3, *ATTACK, "--out", "runs/fed_pii", says="holds another run")


def test_unannotated_records_are_annotated_and_the_report_says_with_what(folder):
    report = json.loads((folder / "mailed/report.json").read_text())
    assert "presidio" in report["data"][0]["annotation"].lower()
    assert any("was not annotated" in limit for limit in report["limits"])


def test_a_log_tells_of_every_round_with_loss_and_time_left(folder):
    told = re.findall(r"^round (\d+): \d+ of 6 trainings, \w+ loss \d\.\d+(.*)$",
                      (folder / "said").read_text(), re.MULTILINE)  # fmt: skip
    # The clock starts with the first training: of what is left, it tells nothing yet.
    assert [number for number, _ in told] == ["1", "2"]
    assert told[0][1] == ""
    assert re.fullmatch(r", about \d+ s left", told[1][1])


def test_nobody_reading_is_no_finding(here):
    command = f"{sys.executable} -m fedaudit report runs/fed_pii | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0", done
    assert done.stderr == ""


def test_an_interrupt_ends_with_its_exit_code_and_goes_on_later(here):
    words = ["simulate", "--profile", "fed_pii", "--out", "stopped", *QUICK, "--set=rounds=3"]
    with open("said", "w+") as said:
        process = fork.start(fork.real, words, err=said)
        while not (here / "stopped/rounds/001/global").exists():
            assert process.is_alive()
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGINT)
        process.join(60)
        said.seek(0)
        assert process.exitcode == 6
        assert said.read().splitlines()[-1].startswith("fedaudit: Interrupted.")
    again = fork.fedaudit(*words)
    assert again.returncode == 0
    assert "Going on in stopped after round" in again.stderr
