"""-v logs what a command opens, reuses and leaves out; without it nothing is logged."""

import json
import logging

import pytest

from fedaudit.cli import log

FILES = ("--prefixes", "own.jsonl", "--victim", "victim.jsonl")
AUDIT = ("audit", "fedaudit-nano", "--adapter", "lora", *FILES, "--dry-run", "--device", "cpu")


pytestmark = pytest.mark.usefixtures("here", "quiet_again")


@pytest.fixture
def quiet_again():
    """Take away what `-v` sets, after each test."""
    yield
    logger = logging.getLogger("fedaudit")
    logger.setLevel(logging.NOTSET)
    logger.handlers.clear()


def test_nothing_is_logged_unasked(run):
    assert run(*AUDIT).err == ""


@pytest.mark.parametrize("words", [("-v", *AUDIT), (*AUDIT, "-v"), (*AUDIT, "--verbose")])
def test_files_and_steps_are_named_but_no_personal_data(words, run, tmp_path):
    done = run(*words)
    assert (done.code, done.out != "") == (0, True)
    for line in ("read own.jsonl: 24 documents", "memorization is left out: "):
        assert line in done.err
    records = (tmp_path / "victim.jsonl").read_text().splitlines()
    spans = [
        record["text"][span["start"] : span["end"]]
        for record in map(json.loads, records)
        for span in record["pii"]
    ]
    assert spans
    assert not [text for text in spans if text in done.err]


def test_a_line_cannot_steer_the_terminal(run, capfd):
    log.show()
    log.show()  # one handler, however often it is asked for
    logging.getLogger("fedaudit.federation").info("opened %s", "a\x1b[2Jb\nc")
    logging.getLogger("fedaudit").debug("not shown")
    [line] = capfd.readouterr().err.splitlines()
    assert line.endswith("s  opened a\\x1b[2Jb c")
