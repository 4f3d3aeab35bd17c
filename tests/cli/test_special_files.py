"""Pipes, devices, links and endless files: one line and exit code 3, at once and untouched."""

import os
import stat
import time

import fake_audit
import pytest
from example_report import example
from fork import run

from fedaudit.report.document import write

AUDIT = (
    *("extract", "--prefixes", "own.jsonl", "--victim", "victim.jsonl", "--quiet"),
    *("--target", "fedaudit-nano", "--adapter", "lora"),
)


@pytest.fixture
def here(tmp_path):
    fake_audit.written(tmp_path)
    (tmp_path / "audit").mkdir()
    return tmp_path


def pipe(path):
    os.mkfifo(path)


def endless(path):
    path.symlink_to("/dev/zero")


def folder(path):
    path.mkdir()


def huge(path):
    with path.open("wb") as file:
        file.truncate(2**40)


def refused(here, *words):
    """Run what must be refused in one line; a second more than an empty start takes is too long."""
    done = run(*words, cwd=here, timeout=60)
    assert done.returncode == 3, done
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    return line


READ = {
    "adapter_config.json": ("lora/adapter_config.json", AUDIT),
    "the attacker's records": ("own.jsonl", AUDIT),
    "report.json": ("audit/report.json", ("report", "audit")),
    "federation.json": (
        "audit/federation.json",
        ("extract", "--prefixes", "victim.jsonl", "--target", "audit"),
    ),
    "canaries": (
        "c.json",
        ("canary", "plant", "c.json", "--records", "own.jsonl", "--client", "c0", "--out", "o"),
    ),
    "a profile": ("p.toml", ("simulate", "--profile", "p.toml", "--out", "new")),
}


@pytest.mark.parametrize("make", [pipe, endless, folder, huge])
@pytest.mark.parametrize("what", READ)
def test_what_is_no_plain_file_is_not_read(here, what, make):
    name, words = READ[what]
    (here / name).unlink(missing_ok=True)
    make(here / name)
    line = refused(here, *words)
    assert name.rpartition("/")[2] in line or "audit" in line


def test_a_report_that_is_a_pipe_is_refused_within_a_second(here):
    """Measured against another mistake of the same command, which reads nothing."""
    times = []
    for path in ("none", "audit"):
        if path == "audit":
            pipe(here / "audit/report.json")
        started = time.monotonic()
        refused(here, "report", path)
        times.append(time.monotonic() - started)
    assert times[1] < times[0] + 1


@pytest.mark.parametrize("kind", ["pipe", "link", "dangling link"])
@pytest.mark.parametrize("option", ["--json", "--out", "report", "scrub", "scrub --json"])
def test_what_is_no_plain_file_is_not_replaced(here, option, kind):
    place, other = here / "taken", here / "other"
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(other)
    if kind == "link":
        other.write_text("precious")
    if option == "--out":
        (here / "out").mkdir()
        place.rename(here / "out/report.json")
        place = here / "out/report.json"
    write(example(), here / "done.json")
    words = {
        "--json": (*AUDIT, "--json", "taken"),
        "--out": (*AUDIT, "--out", "out"),
        "report": ("report", "done.json", "--format", "json", "--out", "taken"),
        "scrub": ("scrub", "own.jsonl", "taken", "--force"),
        "scrub --json": ("scrub", "own.jsonl", "clean.jsonl", "--json", "taken"),
    }[option]
    before = place.lstat()
    line = refused(here, *words)
    assert "taken" in line or "report.json" in line
    assert (place.lstat().st_ino, place.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert other.exists() == (kind == "link")
    if kind == "link":
        assert other.read_text() == "precious"


@pytest.mark.parametrize("content", ['{"text": "a"}\n{"text": "b"}\n', "[1]", "precious", "\xff"])
@pytest.mark.parametrize("command", ["extract", "scrub", "compare"])
def test_a_report_does_not_replace_what_is_no_json_object(here, command, content):
    taken = here / "taken"
    taken.write_text(content, encoding="latin-1")
    words = {
        "extract": AUDIT,
        "scrub": ("scrub", "own.jsonl", "clean.jsonl"),
        "compare": ("compare", "audit", "audit"),
    }[command]
    assert "taken exists and is not" in refused(here, *words, "--json", "taken")
    assert taken.read_text(encoding="latin-1") == content
    assert not (here / "clean.jsonl").exists()


@pytest.mark.parametrize("kind", ["pipe", "device", "link"])
@pytest.mark.parametrize("name", [".fedaudit.lock", "answers.sqlite", "revealed.jsonl"])
def test_what_lies_in_the_output_folder_is_not_replaced(here, name, kind):
    place, other = here / "out" / name, here / "other"
    place.parent.mkdir()
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "device":
        try:
            os.mknod(place, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("only root makes devices")
    else:
        other.write_text("precious")
        place.symlink_to(other)
    before = place.lstat()
    words = (*AUDIT, "--out", "out", *(["--reveal"] if name == "revealed.jsonl" else []))
    refused(here, *words)
    assert (place.lstat().st_ino, place.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert kind != "link" or other.read_text() == "precious"


def test_one_process_at_a_time_works_in_a_folder(here):
    """The kernel's lock is held here, as another process would hold it."""
    import fcntl

    (here / "out").mkdir()
    simulated = ("simulate", "--profile", "fed_pii", "--quiet", "--out", "fed")
    audited = (*AUDIT, "--out", "out")
    for name, words, says in (
        ("out/.fedaudit.lock", audited, "Another process is auditing into out."),
        (".fedaudit-fed.lock", simulated, "Another process is simulating into fed."),
    ):
        with (here / name).open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            assert says in refused(here, *words)
    assert not (here / "fed").exists()
    assert not list((here / "out").glob("*.json"))
