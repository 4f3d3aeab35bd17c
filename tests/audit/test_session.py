"""An audit from Python: shared out, stopped and gone on with, and merged, without the command."""

import json
import re
import signal
from pathlib import Path

import fake_audit
import fork
import pytest

from fedaudit.api.errors import InputError, Interrupted, UsageError
from fedaudit.audit.request import (
    ExtractionRequest,
)
from fedaudit.audit.session import AuditSession, run_audit
from fedaudit.audit.stored_request import to_table
from fedaudit.cache.answers import load
from fedaudit.report.document import validate
from fedaudit.report.redaction import Redactor

MODEL = {"target": "fedaudit-nano", "adapter": "lora"}
OWN, VICTIM = Path("own.jsonl"), Path("victim.jsonl")
REDACTOR = Redactor(bytes(range(32)))


def extraction(**changes):
    options = {"contextual": {"context": 4}}
    asked = {"prefixes": OWN, "victim": VICTIM, "options": options, **MODEL}
    return ExtractionRequest(**{**asked, **changes})


def text(folder):
    """Return a report without its times, what it went on with, and its shards."""
    table = json.loads((Path(folder) / "report.json").read_text())
    validate(table)
    table["run"].pop("shards", None)
    return re.sub(r'"(seconds|started|finished|resumed_from)": [^,}]*', "", json.dumps(table))


REQUEST = ExtractionRequest(
    prefixes=Path("own.jsonl"),
    victim=Path("victim.jsonl"),
    target="fedaudit-nano",
    adapter="lora",
    attacks=("superset", "contextual"),
    options={"contextual": {"context": 4}},
)


def dying(shard):
    fake_audit.replace(setattr, "log", fake_audit.Chances("SIGKILL", 9))
    AuditSession(REQUEST, Path("killed"), shard=shard).run()


def killed(shard=None):
    """Run an audit in a process of its own, which is killed in the middle of it."""
    process = fork.start(dying, shard)
    process.join(600)
    assert process.exitcode == -signal.SIGKILL
    assert load(Path("killed"), write=False).loaded_answers > 0


def test_a_killed_audit_goes_on_from_its_folder_alone(here):
    killed()
    session = AuditSession.resume(Path("killed"), redactor=REDACTOR)
    audit = session.run()
    assert audit.report.run["resumed_from"] == session.fingerprint.run
    assert AuditSession(session.request, Path("whole"), redactor=REDACTOR).run()
    assert text("killed") == text("whole")
    assert [path.name for path in Path("killed").iterdir()] == ["report.json"]


def test_a_killed_shard_goes_on_as_that_shard(here):
    killed("2/2")
    session = AuditSession.resume(Path("killed"))
    assert str(session.shard) == "2/2"
    assert to_table(session.request) == to_table(REQUEST)
    assert session.run() is None
    assert AuditSession(session.request, Path("part1"), shard="1/2").run() is None
    merged = AuditSession.merge([Path("killed"), Path("part1")], Path("merged"), redactor=REDACTOR)
    assert to_table(merged.request) == to_table(REQUEST)
    merged.run()
    AuditSession(session.request, Path("whole"), redactor=REDACTOR).run()
    assert text("merged") == text("whole")


def test_what_is_interrupted_raises_and_goes_on(here, monkeypatch):
    with monkeypatch.context() as patched:
        fake_audit.replace(patched.setattr, "log", fake_audit.Chances("SIGINT", 4))
        with pytest.raises(Interrupted, match="answers are kept"):
            AuditSession(extraction(), Path("out")).run()
    stopped = json.loads(Path("out/report.json").read_text())
    assert (stopped["status"], stopped["measurements"]) == ("interrupted", [])
    assert AuditSession.resume(Path("out")).run().report.measurements
    with pytest.raises(UsageError, match="no unfinished audit in out to resume"):
        AuditSession.resume(Path("out"))


def test_a_copy_that_fails_leaves_a_finished_audit(here):
    session = AuditSession(extraction(), Path("out"), copy=Path("later/copy.json"))
    Path("later").write_text("no folder")
    with pytest.raises(InputError, match="later cannot be made a folder"):
        session.run()
    assert [path.name for path in Path("out").iterdir()] == ["report.json"]
    assert json.loads(Path("out/report.json").read_text())["status"] == "success"


def test_an_audit_that_is_kept_nowhere_is_the_same(here):
    kept = AuditSession(extraction(), Path("out"), redactor=REDACTOR).run()
    before = set(here.iterdir())
    audit = run_audit(extraction(), REDACTOR)
    assert audit.report.measurements == kept.report.measurements
    assert audit.report.run["id"] == kept.report.run["id"]
    assert set(here.iterdir()) == before


def test_nothing_is_written_before_it_runs(here):
    before = set(here.iterdir())
    session = AuditSession(extraction())
    assert session.folder == Path("runs/extract") / session.fingerprint.run
    assert set(here.iterdir()) == before


def test_no_shard_goes_into_the_folder_of_a_finished_audit(here):
    AuditSession(extraction(), Path("out")).run()
    with pytest.raises(InputError, match="out holds a finished report"):
        AuditSession(extraction(), Path("out"), shard="1/2")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"victim": None, "control": VICTIM}, "--control goes with --victim"),
        ({"victim": None, "members": (VICTIM,)}, "--member goes with --victim"),
        ({"victim": None, "options": {"contextual": {"estimator": "exact"}}}, "--victim"),
        ({"attacks": ("nobody",)}, "nobody"),
    ],
)
def test_a_request_is_checked_without_the_command_too(here, changes, says):
    with pytest.raises(UsageError, match=says):
        AuditSession(extraction(**changes))
