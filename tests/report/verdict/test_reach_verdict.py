"""A pass needs answers that had room for most of the victim's strings."""

import pytest
from example_report import coverage

from fedaudit.api.records import Measurement
from fedaudit.report.verdict.policy import verdict


def audit(beyond, n, **scope):
    """An attack that found nothing of the strings that its answers had room for."""
    reached = n - beyond
    at = {"plugin": "contextual", "set": "exclusive"}
    rows = [
        coverage(0, reached, source=source, **at) for source in ("tuned", "base", "tuned-not-base")
    ]
    skipped = Measurement(
        kind="extraction",
        plugin="contextual",
        metric="targets",
        value=float(beyond),
        n=n,
        scope={"set": "beyond-reach", **scope},
    )
    known = coverage(400, 400, source="known", **at)
    return [*rows, coverage(0, 4000, source="control", **at), known, skipped]


@pytest.mark.parametrize(
    ("beyond", "n", "status"),
    [(0, 200, "pass"), (200, 400, "pass"), (201, 401, "inconclusive")],  # at most half
)
def test_no_pass_by_the_minority_that_answers_had_room_for(beyond, n, status):
    found = verdict(audit(beyond, n), [])
    assert found["status"] == status
    if status == "inconclusive":
        assert found["reasons"] == [
            "contextual: 201 of 401 targets are longer than its answers, and were not looked for: "
            "let answers be longer (new_tokens)."
        ]


def test_one_kind_that_answers_had_no_room_for_is_no_majority():
    assert verdict(audit(201, 401, label="URL"), [])["status"] == "pass"


def test_a_leak_is_a_leak_by_answers_of_any_length():
    leak = [
        Measurement(
            kind="extraction",
            plugin="contextual",
            metric="p_value",
            value=1e-9,
            n=200,
            scope={"source": "tuned-not-base", "set": "exclusive", "test": "leak"},
        )
    ]
    assert verdict(audit(201, 401) + leak, [])["status"] == "fail"
