"""A complete federation is shown as it is, unless another judge is to be asked."""

from dataclasses import replace

import pytest

from fedaudit.simulation.config import JudgeSettings, Simulation
from fedaudit.simulation.session import stored_report

WISE = JudgeSettings(url="http://127.0.0.1:9/v1", model="wise")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Return a folder with a report, whose settings a test says."""
    (tmp_path / "report.json").write_text("{}")
    settings = {}
    monkeypatch.setattr(
        "fedaudit.simulation.session.read", lambda path: {"run": {"config": settings}}
    )
    return tmp_path, settings


@pytest.mark.parametrize(
    ("before", "now", "same"),
    [
        (JudgeSettings(), JudgeSettings(), True),
        (WISE, WISE, True),
        (JudgeSettings(), WISE, False),
        (WISE, JudgeSettings(), False),
        (WISE, replace(WISE, model="wiser"), False),
        (None, JudgeSettings(), True),  # a report of before there were judges
        (None, WISE, False),
    ],
)
def test_the_report_stays_while_the_judge_does(place, before, now, same):
    path, settings = place
    if before:
        settings["judge"] = Simulation(judge=before).table()["judge"]
    found = stored_report(Simulation(judge=now), "complete", path)
    assert (found is not None) == same


def test_what_is_unfinished_or_without_a_report_goes_on(place):
    path, _ = place
    assert stored_report(Simulation(), "running", path) is None
    (path / "report.json").unlink()
    assert stored_report(Simulation(), "complete", path) is None
