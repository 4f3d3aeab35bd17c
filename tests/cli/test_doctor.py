import pytest
from command import Command

from fedaudit import nano


@pytest.fixture
def run(monkeypatch, capfd):
    return Command(monkeypatch, capfd)


def test_a_fit_machine(run):
    outcome = run("doctor")
    assert outcome.code == 0, outcome.out
    titles = ("plugins", "versions", "devices", "built-in model", "PII detection", "disk")
    lines = outcome.out.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"ok      {title}" for title in titles]


def test_what_is_broken_is_named_and_the_rest_still_checked(run, monkeypatch, tmp_path):
    monkeypatch.setattr(nano, "folder", lambda: tmp_path)
    outcome = run("doctor")
    assert outcome.code == 3
    assert "broken  built-in model" in outcome.out
    assert "ok      disk" in outcome.out
