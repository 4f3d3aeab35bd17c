"""What a step that could not be run leaves in an audit's measurements."""

from pathlib import Path

import pytest

from fedaudit.api.errors import InputError
from fedaudit.audit import all_steps
from fedaudit.audit.all_steps import AssessmentInputs, AssessmentPipeline
from fedaudit.audit.plan import NO_MARKS
from fedaudit.audit.request import AssessmentRequest, InferenceRequest
from fedaudit.audit.target import AuditTarget
from fedaudit.report.verdict.policy import judge


def audit_of(attribution=None, **settings):
    steps = {"inference": InferenceRequest(data=Path("c0.jsonl"))}
    request = AssessmentRequest(steps=steps, **settings)
    inputs = AssessmentInputs(
        request=request, audited=AuditTarget(base="plain"), form=None, adapter_sha256=None,
        digests={}, facts={}, steps={}, attribution=attribution,
    )  # fmt: skip
    return AssessmentPipeline(inputs=inputs, fingerprint=None, redactor=None)


def attributed(**settings):
    """Return the measurements of an audit's attribution."""
    audit = audit_of(**settings)
    return [row for result in audit._attribute() for row in result.measurements]


def test_marks_that_cannot_be_read_keep_an_audit_from_passing():
    rows = attributed(left_out={"attribution": "watermark.json is broken."})
    [found] = judge(rows, []).judgements
    assert found.status == "inconclusive"
    assert found.reason == "fed_attr tested no client: watermark.json is broken."


def test_the_limits_say_why_there_was_no_attribution():
    audit = audit_of(left_out={"attribution": "watermark.json is broken."})
    audit._steps = {}
    list(audit._attribute())
    assert audit.caveats() == ["attribution: not run: watermark.json is broken."]


def test_an_attribution_that_is_refused_keeps_an_audit_from_passing(monkeypatch):
    def refuse(request, watch):
        raise InputError("its sums are gone.")

    monkeypatch.setattr(all_steps, "attribute", refuse)
    rows = attributed(attribution="what was resolved")
    [found] = judge(rows, []).judgements
    assert found.status == "inconclusive"
    assert "its sums are gone" in found.reason


@pytest.mark.parametrize("left_out", [{}, {"attribution": NO_MARKS}])
def test_where_there_are_no_marks_nothing_is_missing(left_out):
    assert attributed(left_out=left_out) == []
