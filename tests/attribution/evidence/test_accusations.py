"""Accusations that rest on what a verifier cannot check, or on an unusual error level."""

from datetime import UTC, datetime

import pytest
from single_round import single_round

from fedaudit.attribution import report as reporting
from fedaudit.attribution import scores as scores_file
from fedaudit.attribution.evidence import verification

CLIENTS = [f"c{at}" for at in range(10)]


def checks(tmp_path, z, **levels):
    scores = single_round({**dict.fromkeys(CLIENTS, 0.0), "c3": z}, strength=0.72, effective=3.0)
    scores_file.write(scores, tmp_path / "s.json")
    report = reporting.decided_report(
        scores, tmp_path / "s.json", start_time=datetime.now(UTC), federations=0, **levels
    ).to_json()
    found = verification.check_accusations(report, scores, list(scores.marks), None, None)
    return report["findings"], list(found)


def test_at_the_usual_level_nothing_is_decided_again(tmp_path):
    assert checks(tmp_path, 30.0, alpha=0.01, threshold=4.0)[1] == []
    assert checks(tmp_path, 30.0, alpha=0.001, threshold=6.0)[1] == []


@pytest.mark.parametrize(
    "levels", [{"alpha": 0.4, "threshold": 0.5}, {"alpha": 0.05, "threshold": 4.0}]
)
def test_a_strong_accusation_survives_the_usual_level(tmp_path, levels):
    _, [check] = checks(tmp_path, 30.0, **levels)
    assert (check.state, check.rests) == ("same", "")
    assert check.name == "of c3, at alpha 0.01 and tau 4"


def test_an_accusation_by_a_raised_alpha_is_not_certified(tmp_path):
    [finding], [check] = checks(tmp_path, 3.0, alpha=0.4, threshold=0.5)
    assert finding["evidence"]["client"] == "c3"
    assert check.state == "not checked"
    assert check.why.endswith("flags it only at alpha 0.4 and tau 0.5, which the decision chose")
    assert check.rests.startswith("fed_attr: 1 of 10 clients is flagged: c3")
