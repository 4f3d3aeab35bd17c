import pytest

from fedaudit import nano
from fedaudit.cli.doctor_checks import checks
from fedaudit.system import sandbox


def test_a_fit_machine(run):
    outcome = run("doctor")
    assert outcome.code == 0, outcome.out
    titles = ["plugins", "versions", "devices", "built-in model", "PII detection"]
    titles += ["files of others", "disk"]
    lines = outcome.out.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"ok      {title}" for title in titles]


@pytest.mark.parametrize("known", [sandbox.version(), 0])
def test_what_holds_of_files_of_others(known, monkeypatch):
    held = sandbox.attempt("fedaudit.system.sandbox.protections", None, seconds=5.0)
    limits = ["limits on memory", "limits on time", "limits on open files"]
    rights = ["no writing", "no programs"] if sandbox.version() else []
    assert held == limits + rights + (["no TCP"] if sandbox.version() >= 4 else [])
    monkeypatch.setattr(sandbox, "attempt", lambda *_, **__: held if known else limits)
    said = dict(checks())["files of others"]()
    assert ("does not cover" in said) == (known < 4)


def test_what_is_broken_is_named_and_the_rest_still_checked(run, monkeypatch, tmp_path):
    monkeypatch.setattr(nano, "folder", lambda: tmp_path)
    outcome = run("doctor")
    assert outcome.code == 3
    assert "broken  built-in model" in outcome.out
    assert "ok      disk" in outcome.out
