import pytest

from fedaudit.api.records import Measurement
from fedaudit.audit import preflight as calibration
from fedaudit.report.verdict.instrument import judge_instrument
from fedaudit.report.verdict.policy import judge

GOOD = {
    "texts": 32,
    "mean_gain": 0.5,
    "changed_texts": 0.0,
    "base_loss": 0.2,
    "end_tokens": 0.0,
    "longer_texts": 0.0,
    "gain_at_half": -0.3,
    "other_key": "rope_theta",
    "other_gain": -0.4,
}


def unexposed_canaries():
    """Rows that pass without any model: none of 400 canaries is the likeliest secret."""
    common = {"kind": "exposure", "plugin": "canary", "scope": {"source": "tuned", "times": 4}}
    return [
        Measurement.rate(0, 400, **common, metric="maximal_exposure", chance=1 / 1000),
        Measurement(**common, metric="p_value", value=0.5, n=400),
    ]


def test_a_working_instrument_adds_no_row():
    assert calibration.instrument_rows(GOOD) == []
    assert calibration.instrument_rows({}) == []
    assert (
        calibration.instrument_rows({"prompts": 16, "changed": 9, "unsteady": 0}) == []
    )  # behind a server


@pytest.mark.parametrize(
    ("metric", "value", "words"),
    [
        ("changed_texts", 0.01, "changes characters of 1%"),
        ("base_loss", 0.96, "0.96 times that of uniform guesses"),
        ("other_gain", 2.0, "another usual value of rope_theta in its config.json"),
        ("end_tokens", 0.05, "answers stop before"),
        ("longer_texts", 0.5, "longer than the model's context"),
        ("mean_gain", -0.2, "0.2 nats a token less likely"),
        ("gain_at_half", 3.8, "At half its scale".lower()),
        ("gain_at_twice", 2.2, "2.2 times as large"),
    ],
)
def test_a_failing_instrument_bars_a_pass_and_says_so_first(metric, value, words):
    rows = calibration.instrument_rows({**GOOD, metric: value})
    assert [row.metric for row in rows] == [metric]
    [judgement] = judge_instrument(rows)
    assert judgement.status == "inconclusive"
    assert words in judgement.reason
    assert judge(unexposed_canaries(), []).status == "pass"
    verdict = judge([*unexposed_canaries(), *rows], [])
    assert verdict.status == "inconclusive"
    assert verdict.judgements[0] == judgement


def test_a_failing_instrument_alone_does_not_count_as_evidence():
    rows = calibration.instrument_rows({**GOOD, "end_tokens": 0.5})
    reasons = [judgement.reason for judgement in judge(rows, []).judgements]
    assert "No extraction was tried." in reasons
