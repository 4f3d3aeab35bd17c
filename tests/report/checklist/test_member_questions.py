"""What the annex and the bill of materials say of a member's own tests."""

import json

from example_report import example

from fedaudit.api.records import Measurement
from fedaudit.report.checklist.questions import QUESTIONS, answers, claims
from fedaudit.report.renderers import annex, cyclonedx


def row(metric, low, high, **scope):
    kind = scope.pop("kind", "forget")
    return Measurement(
        kind=kind, plugin=kind, metric=metric, value=(low + high) / 2, low=low, high=high, n=130,
        hits=7 if metric != "residual" else None,
        scope={"model": "after", "unit": "record", "others": 200, "limit": 0.1,
               **({"fpr": 0.01} if metric == "learnt" else {}), **scope},
    )  # fmt: skip


def forgotten(residual_low, residual_high):
    rows = [
        row("learnt", 0.0, 0.05),
        row("learnt", 0.3, 0.5, model="before"),
        row("extractable", 0.0, 0.0),
        row("residual", residual_low, residual_high, detectable=0.2),
    ]
    return example(measurements=rows, findings=[], verdict=None).to_json()


def watched():
    rows = [row("learnt", 0.2, 0.3, kind="watch", round=1, test=1, limit=0.5)]
    return example(measurements=rows, findings=[], verdict=None).to_json()


def by_number(report):
    return {item.number: answer for item, answer in answers(report)}


def test_what_a_member_measured_is_not_said_to_be_open():
    found = by_number(forgotten(-0.05, 0.05))
    assert [found[n].status for n in (7, 8, 12, 21)] == ["in part", "in part", *["answered"] * 2]
    assert found[7].text.startswith("Of the records of a member that left: forget extractable 7 ")
    assert found[8].text.startswith("Of 130 records of a member that left, at least 39 (30.0 %)")
    assert found[12].text.startswith("Models trained without the member were compared.")
    assert found[12].rows[0]["metric"] == "residual"


def test_a_watch_answers_whether_members_are_recognised():
    found = by_number(watched())
    assert (found[8].status, found[8].text) == ("in part", found[21].text)
    assert found[7].status == "open"
    assert found[12].text == "No leak was counted beyond the base on the same questions."


def test_questions_are_asked_of_what_a_report_has():
    assert len(answers(example().to_json())) == len(QUESTIONS)
    text = annex.render(forgotten(-0.05, 0.05))
    assert "Is a member that left still in the model?" in text


def test_a_residual_beyond_the_limit_speaks_against_the_claim():
    failed, passed = forgotten(0.7, 1.1), forgotten(-0.05, 0.05)
    assert failed["verdict"]["status"] == "fail"
    assert {claim.item.number: claim.score for claim in claims(failed)}[21] == 0
    assert {claim.item.number: claim.score for claim in claims(passed)}[21] != 0
    declared = json.loads(cyclonedx.render(failed))["declarations"]
    [claim] = [one for one in declared["claims"] if one["bom-ref"] == "claim:Q21"]
    assert len(claim["counterEvidence"]) == 1
    assert not any("counterEvidence" in one for one in declared["claims"] if one is not claim)


def test_a_cost_without_questions_is_one_sentence():
    report = forgotten(-0.05, 0.05)
    report["budget"] = {**dict.fromkeys(report["budget"]), "seconds": 213.6}
    assert by_number(report)[14].text == "The whole audit took 214 seconds. No price was set."
