"""SARIF and CSV: well-formed, masked, and the same names in every run.

The published schema is not at hand: what follows are the parts of SARIF 2.1.0 (OASIS, sections 3.13
to 3.27) that consumers rely on.
"""

import csv
import io
import json
from dataclasses import replace

import pytest
from attributed_report import attributed
from attributed_report import findings as flags
from example_report import HOSTILE, coverage, example, extraction, findings, hostile
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from fedaudit.api.policy import Policy
from fedaudit.report.renderers import csv_table, sarif

TEXT = {"type": "string", "minLength": 1}
MESSAGE = {"type": "object", "required": ["text"], "properties": {"text": TEXT}}
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "$schema": {"type": "string"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array", "minItems": 1, "maxItems": 1,
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "properties": {
                    "tool": {
                        "type": "object", "required": ["driver"],
                        "properties": {"driver": {
                            "type": "object", "required": ["name", "rules"],
                            "properties": {
                                "semanticVersion": {"pattern": r"^\d+\.\d+\.\d+"},
                                "rules": {"type": "array", "items": {
                                    "type": "object", "required": ["id", "shortDescription"],
                                    "properties": {"id": TEXT, "shortDescription": MESSAGE},
                                }},
                            },
                        }},
                    },
                    "invocations": {"type": "array", "items": {
                        "type": "object", "required": ["executionSuccessful"],
                        "properties": {"executionSuccessful": {"type": "boolean"}},
                    }},
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "results": {"type": "array", "items": {
                        "type": "object",
                        "required": ["message", "ruleId", "ruleIndex", "partialFingerprints"],
                        "properties": {
                            "ruleIndex": {"type": "integer", "minimum": 0},
                            "kind": {"enum": ["notApplicable", "pass", "fail", "review", "open",
                                              "informational"]},
                            "level": {"enum": ["none", "note", "warning", "error"]},
                            "message": MESSAGE,
                            "locations": {"type": "array", "minItems": 1},
                            "partialFingerprints": {"type": "object",
                                                    "additionalProperties": {"type": "string"}},
                        },
                        "additionalProperties": True,
                    }},
                },
            },
        },
    },
}  # fmt: skip

COVERED = [
    {"class": name, "edpb": "55 (i)", "status": status, "by": [], "access": [], "knowledge": [],
     "n": None, "reason": "there was none"}
    for name, status in (("membership_inference", "not_run"), ("inversion", "not_applicable"))
]  # fmt: skip


def judged(**changes):
    rows_ = [*extraction(), coverage(0, 6, source="tuned-not-base", label="ID_CARD", set="all")]
    return replace(
        example(measurements=rows_, **changes), policy=Policy(kinds={"ID_CARD": 0.05}),
        coverage=COVERED, context={"release": None, "positions": [], "declared_by": None},
    ).to_json()  # fmt: skip


def log(report):
    document = json.loads(sarif.render(report))
    Draft202012Validator(SARIF).validate(document)
    return document["runs"][0]


def nulls(value):
    if isinstance(value, dict):
        return any(map(nulls, value.values()))
    return any(map(nulls, value)) if isinstance(value, list) else value is None


def test_sarif_has_a_result_for_each_judgement_finding_and_class_not_run():
    report = judged()
    run = log(report)
    kinds = [one["kind"] for one in run["results"]]
    assert len(kinds) == len(report["verdict"]["judgements"]) + 12 + 2
    assert {"fail", "review", "open", "notApplicable"} <= set(kinds)
    for one in run["results"]:
        assert (one["level"] == "none") == (one["kind"] != "fail")
        assert run["tool"]["driver"]["rules"][one["ruleIndex"]]["id"] == one["ruleId"]
    assert not nulls(run)
    assert run["properties"]["verdict"] == report["verdict"]["status"]


def test_sarif_names_the_clients_whose_records_were_not_looked_for():
    report = judged()
    told = "The records of c2 are not at hand."
    assert told not in {one["message"]["text"] for one in log(report)["results"]}
    report["run"]["config"] = {"left_out": {"other clients": "the records of c2 are not at hand"}}
    [found] = [one for one in log(report)["results"] if one["message"]["text"] == told]
    assert (found["ruleId"], found["kind"], found["level"]) == ("FA-AUDIT", "open", "none")


def test_sarif_names_the_adapter_relative_to_something():
    report = judged()
    report["target"]["adapter"] = "/home/somebody/run 1/rounds/010/global"
    [location] = log(report)["results"][0]["locations"]
    uri = location["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "rounds/010/global/adapter_model.safetensors"
    report["target"]["adapter"] = "run 1/lora"
    [location] = log(report)["results"][0]["locations"]
    uri = location["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "run%201/lora/adapter_model.safetensors"
    report["target"]["adapter"] = None
    assert "logicalLocations" in log(report)["results"][0]["locations"][0]


def prints(report):
    found = [one["partialFingerprints"]["fedaudit/v1"] for one in log(report)["results"]]
    assert len(set(found)) == len(found)
    return found


def test_fingerprints_are_the_same_in_another_run_with_other_numbers():
    one = judged()
    other = judged()
    for row in (
        *other["measurements"],
        *(j["measurement"] for j in other["verdict"]["judgements"]),
    ):
        row["value"] = 0.123
    other["run"]["id"] = "other"
    other["findings"] = other["findings"][::-1]
    assert sorted(prints(one)) == sorted(prints(other))
    fewer = judged(findings=findings(3))
    assert set(prints(fewer)) < set(prints(one))


def test_a_report_without_a_policy_is_judged_by_the_default():
    report = example(findings=()).to_json()
    assert "judgements" not in report["verdict"]
    assert {one["ruleId"] for one in log(report)["results"]} == {"FA-EXFILTRATION"}


def test_an_attribution_has_rules_of_its_own():
    run = log(example(measurements=attributed(), findings=flags()).to_json())
    assert {one["ruleId"] for one in run["results"]} == {"FA-ATTRIBUTION"}


def test_a_forged_pass_is_a_failure():
    forged = judged()
    honest = len(log(forged)["results"])
    forged["verdict"]["status"] = "pass"
    for judgement in forged["verdict"]["judgements"]:
        judgement["status"] = "pass"
    results = log(forged)["results"]
    assert len(results) == honest + 1
    assert (results[0]["ruleId"], results[0]["level"]) == ("FA-AUDIT", "error")
    assert "It says pass, they give fail" in results[0]["message"]["text"]


def table(report):
    return list(csv.DictReader(io.StringIO(csv_table.render(report))))


def test_csv_has_every_measurement_and_every_part_of_a_scope():
    report = example().to_json()
    found = table(report)
    assert len(found) == len(report["measurements"])
    for line, row in zip(found, report["measurements"], strict=True):
        assert line["metric"] == row["metric"]
        assert line["value"] == ("" if row["value"] is None else str(row["value"]))
        for name, value in row["scope"].items():
            assert line[f"scope.{name}"] == str(value)


@given(st.sampled_from(["=1+1", "+1", "-cmd", "@SUM(A1)", "\t=1"]))
def test_csv_computes_nothing(text):
    row = coverage(1, 9, source="tuned", victim=text)
    [line] = table(example(measurements=[row]).to_json())
    assert not line["scope.victim"].startswith(("=", "+", "-", "@", "\t"))
    assert line["value"] == str(1 / 9)


@pytest.mark.parametrize("render", [sarif.render, csv_table.render])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_only_text(render, name):
    text = render(hostile(HOSTILE[name]).to_json())
    assert text.isprintable() or all(one.isprintable() or one == "\n" for one in text)
    if render is sarif.render:
        json.loads(text)
