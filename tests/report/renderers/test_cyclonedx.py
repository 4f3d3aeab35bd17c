"""CycloneDX: valid against the published schema of 1.6, masked, the same names in every run.

The schemas in the folder beside this file are those of https://github.com/CycloneDX/specification
at e02a34ae42a4, under the licence there.
"""

import json
from copy import deepcopy
from datetime import date
from pathlib import Path

import gated_report
import memorized_report
import pytest
from attributed_report import attributed
from example_report import HOSTILE, coverage, example, extraction, findings, hostile
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from referencing import Registry, Resource

from fedaudit.api.policy import Policy
from fedaudit.report.checklist.questions import QUESTIONS, claims
from fedaudit.report.checklist.validity import ReportOwner
from fedaudit.report.renderers.cyclonedx import render

PUBLISHED = {
    path.name: json.loads(path.read_text())
    for path in (Path(__file__).parent / "cyclonedx").glob("*.json")
}
REGISTRY = Registry().with_resources(
    [(schema["$id"], Resource.from_contents(schema)) for schema in PUBLISHED.values()]
)
VALIDATOR = Draft7Validator(PUBLISHED["bom-1.6.schema.json"], registry=REGISTRY)
CONTEXT = {"release": "weights", "positions": ["outsider"], "declared_by": "the DPO"}
REPORTS = {
    "extraction": example(context=CONTEXT, verdict=None, policy=Policy()).to_json(),
    "attribution": example(measurements=attributed(), verdict=None).to_json(),
    "gate": example(measurements=gated_report.deployed(), verdict=None).to_json(),
    "memorization": memorized_report.document(),
    "nothing": example(measurements=[], findings=[], limits=[], verdict=None).to_json(),
    "unfinished": example(status="interrupted", verdict=None).to_json(),
}


def bom(report, *owned):
    found = json.loads(render(report, *owned))
    VALIDATOR.validate(found)
    return found


def refs(value, name="bom-ref"):
    """Return all values of `name` in a document."""
    if isinstance(value, dict):
        own = [value[name]] if name in value else []
        return [*own, *(ref for one in value.values() for ref in refs(one, name))]
    return [ref for one in value for ref in refs(one, name)] if isinstance(value, list) else []


@pytest.mark.parametrize("name", REPORTS)
def test_every_report_is_valid_and_its_names_are_unique_and_known(name):
    found = bom(REPORTS[name])
    known = refs(found)
    assert len(known) == len(set(known))
    used = {*refs(found, "requirement"), *refs(found, "target"), *refs(found, "assessor")}
    for claim in found["declarations"]["claims"]:
        used |= {*claim.get("evidence", ()), *claim.get("counterEvidence", ())}
    assert used <= set(known)


def test_the_published_schema_refuses_what_is_none():
    found = bom(REPORTS["extraction"])
    for change in (
        lambda one: one["declarations"]["attestations"][0]["map"][0].update(score=1),
        lambda one: one["declarations"]["claims"][0].update(surprise=1),
        lambda one: one["components"][0].update(type="model"),
    ):
        wrong = deepcopy(found)
        change(wrong)
        assert not VALIDATOR.is_valid(wrong)


def test_every_question_is_a_requirement_with_a_claim():
    found = bom(REPORTS["extraction"])
    [standard] = found["definitions"]["standards"]
    assert [one["title"] for one in standard["requirements"]] == [one.text for one in QUESTIONS]
    assert [one["predicate"] for one in found["declarations"]["claims"]] == [
        one.statement for one in QUESTIONS
    ]
    [attestation] = found["declarations"]["attestations"]
    assert [one["claims"] for one in attestation["map"]] == [
        [f"claim:{one.name}"] for one in QUESTIONS
    ]


def test_what_fails_is_counter_evidence_and_scores_nothing():
    found = bom(REPORTS["extraction"])
    [claim] = [one for one in found["declarations"]["claims"] if one["bom-ref"] == "claim:Q05"]
    told = [
        e for e in found["declarations"]["evidence"] if e["bom-ref"] in claim["counterEvidence"]
    ]
    assert all("fail: " in one["description"] for one in told)
    rows = [json.loads(one["data"][0]["contents"]["attachment"]["content"]) for one in told]
    assert (112, 500) in {(row["hits"], row["n"]) for row in rows}
    [attestation] = found["declarations"]["attestations"]
    assert attestation["map"][4]["conformance"]["score"] == 0


def test_a_score_is_1_where_all_passes_0_where_anything_fails_and_else_absent():
    sources = ("tuned", "base", "tuned-not-base", "base-not-tuned", "control")
    rows = [coverage(0, 900, source=source, set="all") for source in sources]
    rows.append(coverage(400, 400, source="known", set="all"))
    passed = example(measurements=rows, findings=[], verdict=None).to_json()
    few = [coverage(0, 3, source=source, set="all") for source in sources]
    unsure = example(measurements=few, findings=[], verdict=None).to_json()
    scores = [claims(one)[4].score for one in (passed, REPORTS["extraction"], unsure)]
    assert scores == [1, 0, None]
    assert "score" not in bom(unsure)["declarations"]["attestations"][0]["map"][4]["conformance"]


def test_the_model_has_its_digest_and_its_base():
    model = bom(REPORTS["extraction"])["components"][0]
    assert model["hashes"][0]["content"] == REPORTS["extraction"]["target"]["sha256"]
    [base] = model["pedigree"]["ancestors"]
    assert base["name"] == REPORTS["extraction"]["target"]["base"]


def test_names_are_the_same_in_another_run_with_other_numbers():
    one = REPORTS["extraction"]
    two = deepcopy(one)
    two["run"] |= {"started": "2026-01-01T00:00:00+00:00", "finished": "2026-01-01T01:00:00+00:00"}
    two["seeds"] = {"audit": 7}
    for row in two["measurements"]:
        if row["metric"] == "coverage" and row["low"] is not None:
            row["high"] = min(1.0, row["high"] + 0.001)
    assert refs(bom(one)) == refs(bom(two))
    assert bom(one)["serialNumber"] == bom(two)["serialNumber"]


def test_owner_and_expiry_are_those_that_were_declared_and_nobody_signs():
    found = bom(REPORTS["extraction"], ReportOwner(owner="Court 1", expires=date(2027, 6, 30)))
    declared = found["declarations"]
    assert declared["assessors"] == [
        {"bom-ref": "assessor", "thirdParty": False, "organization": {"name": "Court 1"}}
    ]
    assert {one["expires"] for one in declared["evidence"]} == {"2027-06-30T23:59:59Z"}
    assert not {"affirmation", "signature"} & declared.keys()
    own = bom(REPORTS["extraction"])["declarations"]
    assert own["assessors"][0]["organization"]["name"] == "the DPO"


def test_not_even_masks_of_leaks_are_in_it():
    text = render(example(measurements=extraction(), findings=findings(), verdict=None).to_json())
    assert "hmac" not in text


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_only_text(name):
    text = render(hostile(HOSTILE[name]).to_json(), ReportOwner(owner=HOSTILE[name]))
    VALIDATOR.validate(json.loads(text))
    assert text.isascii()
    assert "\\u202e" not in text.replace("\\\\u202e", "")
    assert "\\u001b" not in text


@given(st.integers(0, 500))
def test_any_number_of_hits_is_valid(hits):
    rows = [coverage(hits, 500, source=s, set="all") for s in ("tuned", "base", "tuned-not-base")]
    bom(example(measurements=rows, verdict=None).to_json())
