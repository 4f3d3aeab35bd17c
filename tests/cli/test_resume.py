"""An audit that is stopped at any moment goes on, and its report is that of one that was not."""

import json
import random
import re
import shutil
import sqlite3
import stat
from contextlib import closing

import fake_audit
import pytest
from command import Command
from fork import run

from fedaudit.cache.answers import FILE, load
from fedaudit.report.document import validate

AUDIT = (
    *("extract", "--prefixes", "own.jsonl", "--victim", "victim.jsonl", "--quiet"),
    *("--target", "fedaudit-nano", "--adapter", "lora"),
    *("--attack", "superset", "--attack", "contextual"),
    *("--set", "superset.context=3", "--set", "contextual.context=4"),
)
EXACT = (
    *(*AUDIT, "--estimator", "exact"),
    *("--set", "superset.sweeps=false", "--set", "contextual.sweeps=false"),
)
FAILED = 1
"""The model says four of the six people that its base does not, and nobody invented."""


def out(here, name):
    """Return a new output folder."""
    (here / name).mkdir()
    return name


def report(folder):
    """Return the text of a report without its times and what it went on with."""
    text = (folder / "report.json").read_text()
    validate(json.loads(text))
    return re.sub(r'"(seconds|started|finished|resumed_from)": .*', "", text)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder with the inputs, and in `one` the report of an audit that nobody stopped."""
    here = tmp_path_factory.mktemp("resume")
    fake_audit.written(here)
    done = run(*AUDIT, "--out", out(here, "one"), log="whole", cwd=here)
    assert done.returncode == FAILED, done.stderr
    return here


@pytest.fixture
def here(made, tmp_path):
    """Return a copy of that folder, to do as one likes with."""
    shutil.copytree(made, tmp_path / "here")
    return tmp_path / "here"


def test_the_cache_is_gone_when_the_report_is_there(made):
    assert [path.name for path in (made / "one").iterdir()] == ["report.json"]
    rows = json.loads((made / "one/report.json").read_text())["measurements"]
    found = [
        r["hits"] for r in rows if r["metric"] == "coverage" and r["scope"].get("set") == "all"
    ]
    assert max(found) > 2  # the comparisons below are of something
    assert len((made / "whole").read_text().splitlines()) > 30


def killed_and_gone_on_with(here, words, points):
    """Kill an audit at each point in turn and let it end; compare with what nobody stopped."""
    place = out(here, "again")
    for point in points:
        more = ["--resume"] if (here / place / FILE).exists() else []
        done = run(*words, "--out", place, *more, point=point, cwd=here)
        assert done.returncode == -9, done.stderr
    done = run(*words, "--out", place, "--resume", cwd=here)
    assert done.returncode in (0, FAILED, 7), done.stderr
    assert report(here / place) == report(here / "one")
    assert not (here / place / FILE).exists()
    # No question is lost; what was being asked or written when the process died is asked again.
    whole, asked = ((here / name).read_text().splitlines() for name in ("whole", "log"))
    assert set(asked) == set(whole)
    assert len(asked) <= len(whole) + len(points)


def test_killed_at_random_points_it_ends_as_if_never_killed(here):
    rng = random.Random(2)
    killed_and_gone_on_with(here, AUDIT, [rng.randint(1, 30) for _ in range(3)])


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    """Return such a folder with a report that was computed and not sampled."""
    here = tmp_path_factory.mktemp("computed")
    fake_audit.written(here)
    done = run(*EXACT, "--out", out(here, "one"), log="whole", cwd=here)
    assert done.returncode in (0, FAILED, 7), done.stderr
    return here


@pytest.fixture
def walked(computed, tmp_path):
    """Return a copy of that folder, to do as one likes with."""
    shutil.copytree(computed, tmp_path / "here")
    return tmp_path / "here"


def test_an_exact_audit_killed_at_random_points_ends_as_if_never_killed(walked):
    rows = json.loads((walked / "one/report.json").read_text())["measurements"]
    found = [r["value"] for r in rows if r["metric"] == "vx_pii"]
    assert max(found) > 1
    rng = random.Random(3)
    killed_and_gone_on_with(walked, EXACT, [rng.randint(1, 11) for _ in range(3)])


def test_an_exact_audit_that_is_interrupted_says_so_and_goes_on(walked):
    for how, resumed in (("SIGTERM", []), ("FULL", ["--resume"])):
        done = run(*EXACT, "--out", "again", *resumed, how=how, point=9, cwd=walked)
        assert done.returncode == 6, done.stderr
        assert done.stderr.endswith("Give the same command with --resume to go on.\n")
        assert json.loads((walked / "again/report.json").read_text())["status"] == "interrupted"
    # What another threshold gives up is another sum.
    other = run(*EXACT, "--set", "superset.threshold=0.1", "--out", "again", "--resume", cwd=walked)
    assert other.returncode == 3
    assert "superset.threshold is 0.1, not 0.004" in other.stderr
    assert run(*EXACT, "--out", "again", "--resume", cwd=walked).returncode in (0, FAILED, 7)
    assert report(walked / "again") == report(walked / "one")


def test_another_batch_size_may_go_on(here):
    run(*AUDIT, "--out", out(here, "again"), point=40, cwd=here)
    assert (
        run(*AUDIT, "--out", "again", "--resume", "--batch-size", 7, cwd=here).returncode == FAILED
    )
    first, again = (json.loads((here / n / "report.json").read_text()) for n in ("one", "again"))
    assert first["measurements"] == again["measurements"]
    # It is the same run: the batch size changes no result.
    assert (first["run"]["resumed_from"], again["run"]["resumed_from"]) == (
        None,
        first["run"]["id"],
    )
    assert again["run"]["id"] == first["run"]["id"]


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("SIGTERM", "Interrupted."),
        ("FULL", "answers.sqlite cannot be written: No space left on device"),
    ],
)
def test_what_is_stopped_says_so_and_goes_on(here, how, why):
    done = run(*AUDIT, "--out", out(here, "again"), how=how, point=30, cwd=here)
    assert done.returncode == 6, done.stderr
    [line] = done.stderr.splitlines()
    assert why in line
    kept = load(here / "again", write=False).loaded_answers
    assert line.endswith(f" {kept} answers are kept. Give the same command with --resume to go on.")
    assert kept > 40
    assert done.stdout == ""
    found = json.loads((here / "again/report.json").read_text())
    validate(found)
    assert (found["status"], found["measurements"]) == ("interrupted", [])
    assert found["verdict"]["status"] == "inconclusive"
    assert run(*AUDIT, "--out", "again", "--resume", cwd=here).returncode == FAILED
    assert report(here / "again") == report(here / "one")


def test_what_is_stopped_before_any_answer_does_not_say_that_some_are_kept(here):
    done = run(*AUDIT, "--out", out(here, "again"), how="SIGINT", point=1, cwd=here)
    assert done.returncode == 6
    says = "fedaudit: Interrupted. No answer was kept: give the same command to begin again.\n"
    assert done.stderr == says
    assert run(*AUDIT, "--out", "again", cwd=here).returncode == FAILED
    assert report(here / "again") == report(here / "one")


def test_a_finished_report_is_not_replaced_by_one_of_a_stopped_audit(here):
    before = report(here / "one")
    assert run(*AUDIT, "--out", "one", how="SIGTERM", point=9, cwd=here).returncode == 6
    assert report(here / "one") == before


# what is refused


@pytest.fixture(scope="module")
def stopped(made, tmp_path_factory):
    """Return a folder in which an audit was killed."""
    here = tmp_path_factory.mktemp("stopped") / "here"
    shutil.copytree(made, here)
    run(*AUDIT, "--out", "again", point=50, cwd=here)
    return here


def content(path):
    """Return all rows of a cache; what sqlite keeps beside the file belongs to it."""
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


@pytest.fixture
def refused(monkeypatch, capfd):
    """Return a function that runs what must be refused, in this process, and change nothing."""
    command = Command(monkeypatch, capfd)

    def refuse(code, *words, cwd, says):
        before = content(cwd / "again" / FILE)
        monkeypatch.chdir(cwd)
        assert re.search(says, command.refused(code, *AUDIT, *words).err)
        assert content(cwd / "again" / FILE) == before

    return refuse


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--seed", "5"], r"answers of another audit: seed is 5, not 0\."),
        (["--set", "superset.samples=3"], r"attacks\.superset\.samples is 3, not 15"),
        (["--attack", "frequency"], r"attacks\.frequency\.\w+ is .*, not absent"),
        (["--prefixes", "victim.jsonl"], r"prefixes is \"victim.jsonl\", not \"own.jsonl\""),
        (["--member", "victim.jsonl"], r"members is .*victim\.jsonl.*, not \[\]"),
        (["--control", "victim.jsonl"], r"control is .*victim\.jsonl"),
        (["--shard", "1/2"], r"holds the answers of a whole audit, not of shard 1/2"),
    ],
)
def test_another_audit_does_not_go_on_with_it(stopped, refused, words, says):
    refused(3, "--out", "again", "--resume", *words, cwd=stopped, says=says)


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("victim.jsonl", r"data\.victim\.jsonl is \"\w+…, not"),
        ("lora/adapter_model.safetensors", r"adapter's SHA-256 is \"\w+…, not"),
        ("lora/adapter_config.json", r"adapter's SHA-256 is \"\w+…, not"),
    ],
)
def test_what_was_changed_is_named(stopped, refused, tmp_path, file, says):
    here = tmp_path / "here"
    shutil.copytree(stopped, here)
    content = (here / file).read_bytes()
    tensors = b"\3" + bytes(7) + b"{ }"  # another file without tensors
    (here / file).write_bytes(tensors if file.endswith("tensors") else content + b"\n")
    refused(3, "--out", "again", "--resume", cwd=here, says=says)


def test_without_resume_an_unfinished_audit_is_named(stopped, refused):
    says = r"again holds this very audit, unfinished\. Go on with --resume, or remove"
    refused(3, "--out", "again", cwd=stopped, says=says)


def test_there_must_be_something_to_resume(stopped, refused):
    refused(2, "--out", "new", "--resume", cwd=stopped, says="no unfinished audit in new to resume")
    assert not (stopped / "new").exists()


def test_the_cache_of_another_version_is_named(stopped, refused, tmp_path):
    here = tmp_path / "here"
    shutil.copytree(stopped, here)
    with sqlite3.connect(here / "again" / FILE) as connection:
        connection.execute("PRAGMA user_version = 7")
    connection.close()
    says = r"again/answers\.sqlite was not written by this version.*remove it and begin again"
    refused(3, "--out", "again", "--resume", cwd=here, says=says)
    refused(3, "--out", "again", cwd=here, says=says)


def test_a_corrupt_cache_is_named(stopped, tmp_path):
    here = tmp_path / "here"
    shutil.copytree(stopped, here)
    with sqlite3.connect(here / "again" / FILE) as connection:
        connection.execute("UPDATE answers SET answer = '[7]'")
    connection.close()
    done = run(*AUDIT, "--out", "again", "--resume", cwd=here)
    assert (done.returncode, done.stdout) == (3, "")
    [line] = done.stderr.splitlines()
    assert "again/answers.sqlite is corrupt: expected a flat list of 3-tuples" in line


def test_no_pii_stands_in_the_cache_and_only_its_owner_reads_it(stopped):
    names = [*fake_audit.NAMES, *fake_audit.PLACES]
    rows = load(stopped / "again", write=False).opened().execute("SELECT answer FROM answers")
    answers = [json.loads(text) for (text,) in rows]
    assert sum(map(len, answers)) > 20
    # Hits are numbers: even its reader sees no name.
    assert all(isinstance(number, int) for hits in answers for number in hits)
    for path in (stopped / "again").glob(f"{FILE}*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert not [n for n in names if n.encode() in path.read_bytes()]
