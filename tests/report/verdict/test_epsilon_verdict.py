import pytest

from fedaudit.api.records import Measurement
from fedaudit.report.verdict.policy import verdict


def row(metric, value, claimed=8.0, **scope):
    scope = {"judged": True, "estimator": "f_dp", **scope}
    return Measurement(
        kind="epsilon", plugin="dp_audit", metric=metric, value=value, baseline=claimed, scope=scope
    )


def rows(tuned=1.0, noiseless=9.0, shuffled=0.0, cap=9.5):
    at = {"source": "tuned", "correct": 9, "guesses": 9}
    found = [row("epsilon_cap", cap), row("epsilon_low", tuned, **at)]
    found.append(row("epsilon_low", shuffled, source="shuffled"))
    if noiseless is not None:
        found.append(row("epsilon_low", noiseless, source="noiseless"))
    # Of the test that is not judged: nothing of it counts.
    return [*found, row("epsilon_low", 50.0, source="tuned", judged=False, estimator="one_run")]


@pytest.mark.parametrize(
    ("given", "status", "says"),
    [
        (rows(), "pass", "not refuted: at least 1 is proved; of the same training without noise"),
        (rows(tuned=8.0), "pass", "not refuted"),
        (rows(tuned=8.1), "fail", "refuted: it is at least 8.1 (9 of 9 guesses are right"),
        (rows(tuned=8.1, noiseless=None), "fail", "refuted"),
        (rows(noiseless=None), "inconclusive", "no training without noise was audited"),
        (rows(noiseless=8.0), "inconclusive", "without noise the audit proves only 8"),
        (rows(cap=7.9), "inconclusive", "so few canaries can prove 7.9 at most"),
        (rows(shuffled=0.1), "inconclusive", "with coins tossed anew the audit proves 0.1"),
        (rows(shuffled=0.1, tuned=9.0), "inconclusive", "coins tossed anew"),
        (rows()[:1], "inconclusive", "was not measured"),
    ],
)
def test_a_claim_is_refuted_or_not_or_the_audit_has_no_power(given, status, says):
    found = verdict(given, [])
    assert found["status"] == status
    assert says in found["reasons"][0]


def test_any_position_refutes():
    more = row("epsilon_low", 8.5, source="tuned", position="server", correct=1, guesses=1)
    assert verdict([*rows(), more], [])["status"] == "fail"


def test_the_limit_names_the_claim():
    [judgement, *_] = verdict(rows(), [], explained=True)["judgements"]
    assert judgement["limit"] == "no more proved than 8"
