"""How the results of an audit's steps are put together, and what a step that failed leaves."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from fedaudit.api.errors import InputError
from fedaudit.api.plugin import Result
from fedaudit.api.records import Finding, Measurement
from fedaudit.audit import all_steps
from fedaudit.audit.all_steps import AssessmentInputs, AssessmentPipeline
from fedaudit.audit.plan import NO_MARKS
from fedaudit.audit.request import AssessmentRequest, InferenceRequest
from fedaudit.audit.run import AuditResults
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


def test_results_name_the_victim_and_state_what_holds_of_all_once():
    audit = audit_of(victims={"extraction": "c1", "extraction of c2": "c2"})
    row = partial(Measurement, kind="extraction", metric="coverage", value=0.5, n=2, scope={})
    leak = Finding(id="verbatim-0001", severity="low", label="DOCUMENT", measurement="verbatim",
                   evidence={})  # fmt: skip
    verbatim = Result(
        measurements=(row(plugin="verbatim"),),
        findings=(leak,),
        limits=("of all", "of c1"),
        revealed=({"id": leak.id, "text": "x"},),
    )
    updates = Result(measurements=(row(plugin="reconstruction"),), limits=("of the round",))
    other = replace(verbatim, limits=("of all", "of c2", "of c2"))
    alone = Result(measurements=(row(plugin="memorize"),), limits=("of all", "of pairs"))
    done = {
        name: AuditResults(results=results, effect={}, beginning=None, usage={})
        for name, results in {
            "extraction": [verbatim, updates],
            "extraction of c2": [other],
            "memorization": [alone],
        }.items()
    }
    results = list(audit._of_victims(done))
    rows = [one for result in results for one in result.measurements]
    assert [(one.plugin, dict(one.scope)) for one in rows] == [
        ("verbatim", {"victim": "c1"}),
        ("reconstruction", {}),
        ("verbatim", {"victim": "c2"}),
        ("memorize", {}),
    ]
    assert [one.id for r in results for one in r.findings] == [
        "c1-verbatim-0001",
        "c2-verbatim-0001",
    ]
    assert [one.evidence for r in results for one in r.findings] == [
        {"victim": "c1"},
        {"victim": "c2"},
    ]
    assert [one["id"] for r in results for one in r.revealed] == [
        "c1-verbatim-0001",
        "c2-verbatim-0001",
    ]
    assert sorted({limit for r in results for limit in r.limits}) == [
        "of all",
        "of pairs",
        "of the round",
        "victim c1: of c1",
        "victim c2: of c2",
    ]


def test_a_step_that_fails_names_its_victim(monkeypatch):
    audit = audit_of(victims={"inference of c2": "c2", "extraction": "c1"})
    audit._steps = {"inference of c2": Refused(), "pairs": Answered()}
    results = audit.measure(None).results
    [missing] = [row for r in results for row in r.measurements if row.value is None]
    assert (missing.plugin, missing.scope) == ("ranking", {"source": "tuned", "victim": "c2"})
    [judged] = judge([missing], []).judgements
    assert (judged.status, "gone" in judged.reason) == ("inconclusive", True)


class Refused:
    def measure(self, engine):
        raise InputError("The records are gone.")


class Answered:
    def measure(self, engine):
        return AuditResults(results=(), effect={}, beginning=None, usage={"queries": 1})


def test_the_limits_say_why_there_was_no_attribution():
    audit = audit_of(left_out={"attribution": "watermark.json is broken."})
    audit._steps = {}
    list(audit._attribute())
    assert audit.caveats() == ["attribution: not run: watermark.json is broken."]


def test_the_limits_name_the_clients_whose_records_are_not_at_hand():
    audit = audit_of(left_out={"other clients": "the records of c2 are not at hand"})
    audit._steps = {}
    assert audit.caveats() == ["Nothing was looked for: the records of c2 are not at hand."]


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
