"""An attack whose measurements were taken out of a report is missed where the report names it."""

import json

import pytest
from attributed_report import attributed, client
from attributed_report import findings as accusations
from attributed_report import report as attribution_report
from example_report import coverage, example

from fedaudit.api.records import Measurement
from fedaudit.report.document import dumps
from fedaudit.report.verdict.attribution import unjudged_clients
from fedaudit.report.verdict.completeness.attack_list import unmeasured_attacks
from fedaudit.report.verdict.recheck import recheck


def row(kind, plugin, value=0.5, **scope):
    reason = "" if value is not None else "it could not be made"
    return Measurement(
        kind=kind, plugin=plugin, metric="coverage", value=value, reason=reason, scope=scope
    )


STEPS = {
    "extraction": {"attacks": {"contextual": {}, "membership": {}, "openings": {}}},
    "inference": {"attacks": {"ranking": {}}},
    "pairs": {"attacks": {"contextual": {}}},
    "memorization": {"attacks": {}},
    "canaries": {"attacks": {}},
}
ROWS = {
    "contextual": row("extraction", "contextual"),
    "membership": row("membership", "membership", None),
    "inference": row("probability", "ranking"),
    "pairs": row("extraction", "contextual", attacker="c0", victim="c1"),
    "memorization": row("memorization", "memorize"),
    "canaries": row("exposure", "canary"),
    "attribution": row("attribution", "fed_attr"),
}


def audit(*, coverage=(), command="audit", **config):
    run = {"command": command, "config": config}
    return {"run": run, "coverage": [{"by": list(coverage)}]}


@pytest.mark.parametrize("part", ROWS)
def test_each_step_of_an_audit_must_have_measurements(part):
    report = audit(steps=STEPS, attribution=True)
    assert unmeasured_attacks(report, list(ROWS.values())) == []
    assert unmeasured_attacks(report, [r for name, r in ROWS.items() if name != part]) == [part]


def test_a_step_that_failed_has_one_row_for_all_its_attacks():
    rows = [ROWS["inference"], row("extraction", "extract", None)]
    steps = {name: STEPS[name] for name in ("extraction", "inference")}
    assert unmeasured_attacks(audit(steps=steps), rows) == []


def test_an_audit_of_other_settings_lists_nothing():
    assert unmeasured_attacks({"run": {"command": "extract", "config": {}}}, []) == []
    odd = audit(steps=["extraction"], attacks=["verbatim"], attribution="yes")
    assert unmeasured_attacks(odd, []) == []


def test_a_class_of_attacks_names_what_ran():
    report = audit(coverage=["contextual", "canary", "mine"])
    assert unmeasured_attacks(report, [ROWS["contextual"]]) == ["canary"]
    assert unmeasured_attacks(report, [row("x", "contextual", None), ROWS["canaries"]]) == [
        "contextual"
    ]


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("infer", "probability"),
        ("memorize", "memorization"),
        ("canary", "exposure"),
        ("dp", "epsilon"),
    ],
)
def test_a_command_of_one_kind_must_have_measurements_of_it(command, kind):
    assert unmeasured_attacks(audit(command=command), [row(kind, "x", None)]) == []
    assert unmeasured_attacks(audit(command=command), [row("persons", "x")]) == [command]


@pytest.mark.parametrize("kind", ["persons", "counterfactual"])
def test_what_stands_beside_an_attack_is_no_measurement_of_it(kind):
    report = audit(attacks={"contextual": {}})
    assert unmeasured_attacks(report, [row(kind, "contextual")]) == ["contextual"]


def test_a_report_tells_the_attack_that_is_missing():
    rows = [coverage(0, 9, source="tuned", plugin="openings")]
    made = example(measurements=rows, findings=())
    report = json.loads(dumps(made.to_json()))
    report["run"]["config"]["attacks"] = {"openings": {}, "verbatim": {}}
    assert recheck(report).message == (
        "Do not rely on this report: it names attacks that it holds no measurements of: verbatim."
    )
    report["run"]["config"]["attacks"] = {"openings": {}, "mine": {}}
    assert recheck(report).message == ""


def test_a_client_whose_result_was_taken_out_is_missed():
    rows = attributed()
    gone = client("court-1", "mark-a", (3.1, 3.6, 2.9, 4.2, 3.8))[:3]
    cut = [r for r in rows if r not in gone]
    assert len(rows) - len(cut) == 3
    report = json.loads(dumps(attribution_report(cut, findings=accusations()[1:])))
    assert recheck(report).message == (
        "Do not rely on this report: 1 of its clients have no result over all rounds."
    )


def test_the_protocols_rows_are_missed_beside_those_of_the_papers_rule():
    beside = [
        Measurement(kind="attribution", plugin="paper_rule", metric="stouffer_z", value=1.0,
                    scope={"client": name, "mark": "mark-a"})
        for name in ("court-1", "ward-9")
    ]  # fmt: skip
    assert unjudged_clients([*attributed(), *beside]) == 1
    assert unjudged_clients(beside) == 2
