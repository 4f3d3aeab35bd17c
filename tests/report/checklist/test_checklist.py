"""The twenty questions, whose data came out, what to do: answered from the report, or open."""

import pytest
from attributed_report import attributed
from attributed_report import findings as flags
from example_report import KEY, coverage, example, extraction, findings, number
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import UsageError
from fedaudit.api.policy import Policy
from fedaudit.api.records import Finding, Measurement
from fedaudit.report.checklist import attackers, leaks, questions
from fedaudit.report.checklist.measures import measures
from fedaudit.report.checklist.questions import QUESTIONS, answers
from fedaudit.report.checklist.validity import ReportOwner, issued, ownership
from fedaudit.report.redaction import Redactor
from fedaudit.report.tables.defense import defense_tables
from fedaudit.report.verdict.recheck import recheck


def plain(rows=None, **changes):
    rows = extraction() if rows is None else rows
    return example(measurements=rows, verdict=None, **changes).to_json()


def leak(name, label="PERSON", severity="high", by="contextual coverage", **evidence):
    mask = Redactor(KEY).mask(name, label) | evidence
    return Finding(id=f"{by}-{name}-{severity}", severity=severity, label=label, measurement=by,
                   evidence=mask)  # fmt: skip


def said(report):
    return {one.number: found for one, found in answers(report)}


def test_there_are_twenty_questions_and_each_is_answered_or_open():
    assert [one.number for one in QUESTIONS] == list(range(1, 21))
    for found in said(plain()).values():
        assert found.status in ("answered", "in part", "open")
        assert found.text.endswith(".")


def test_a_report_without_numbers_answers_only_what_the_run_says():
    report = plain([], coverage=None, context=None)
    open_ = [number for number, found in said(report).items() if found.status == "open"]
    assert open_ == [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 19]


def test_answers_rest_on_rows_of_the_report():
    report = plain([*extraction(), number("exposure", "canary", "maximal_exposure", 0.5)])
    found = said(report)
    assert found[11].status == "answered"
    assert [row["metric"] for row in found[11].rows] == ["maximal_exposure"]
    for answer in found.values():
        assert all(row in report["measurements"] for row in answer.rows)
    assert found[12].status == "in part"
    # 112 / 500 = 22.4 %; Wilson by hand in example_report
    assert "112 of 500, 22.4 %" in found[12].text


def test_sampled_extraction_answers_the_likelihood_in_part_and_exact_whole():
    assert said(plain())[5].status == "in part"
    exact = coverage(3, 10, source="tuned-not-base", set="all", estimator="exact")
    assert said(plain([exact]))[5].status == "answered"


def test_what_zero_means_has_its_bound():
    rows = [coverage(0, 50, source="tuned-not-base", set="exclusive")]
    # Wilson with 0 of n: z^2 / (n + z^2) = 3.8416 / 53.8416 = 7.1 %
    assert "contextual: 0 of 50, at most 7.1 %." in said(plain(rows))[19].text


def test_what_zero_means_is_not_asked_where_a_leak_was_found():
    report = plain()
    report["verdict"]["detectable"] = 1.0
    assert report["verdict"]["status"] == "fail"
    assert said(report)[19].text == questions.FOUND
    report["verdict"]["status"] = "inconclusive"
    assert "Too little was looked for" in said(report)[19].text


@pytest.mark.parametrize(("p", "learned"), [(1e-9, True), (0.026, False)])
def test_what_zero_means_says_what_was_learned_all_the_same(p, learned):
    """Two kinds share the level of 5 %."""
    rows = [
        coverage(0, 50, source="tuned-not-base", set="exclusive"),
        *(
            number("extraction", "contextual", "p_value", value, test="learned", label=label)
            for label, value in (("PERSON", p), ("CITY", 0.5))
        ),
    ]
    report = plain(rows)
    report["verdict"] |= {"detectable": 0.07, "status": "inconclusive"}
    assert "A leak of 7.0 % of the targets would have been seen" in said(report)[19].text
    told = "The model has learned strings that may not have come out (p = 1e-09)."
    assert (told in said(report)[19].text) == learned


def test_whose_data_is_that_of_the_victim_alone():
    """No attacker, and no client of which nothing could be measured; never a path."""
    rows = [
        Measurement.missing("-", kind="reconstruction", plugin="reconstruction",
                            metric="reconstruction_rate", scope={"client": "c2", "victim": "c3"}),
        coverage(1, 9, source="tuned", set="all", victim="all"),
    ]  # fmt: skip
    report = plain(rows)
    for option in ("victim", "data"):
        report["run"]["config"] = {option: "data/c1.jsonl", "prefixes": "data/c0.jsonl"}
        assert said(report)[13].text.startswith("Records of: c1. ")
    report["run"]["config"] = {"prefixes": "data/c0.jsonl"}
    assert said(report)[13].text.startswith("Records of: c0. ")


def test_an_attack_stands_at_the_furthest_position_that_can_make_it():
    rows = [
        coverage(1, 9, plugin="contextual", source="tuned-not-base", set="all"),
        coverage(1, 9, plugin="verbatim", source="tuned-not-base", records="victim"),
        coverage(1, 9, plugin="contextual", source="tuned-not-base", set="all", key="none"),
        coverage(1, 9, plugin="contextual", source="tuned-not-base", set="all", key="other"),
        coverage(1, 9, plugin="somebody_s", source="tuned-not-base", set="all"),
    ]
    report = plain(rows)
    found = [(line[0], line[1]) for line in leaks.attackers(report).rows]
    assert found == [
        ("public", "verbatim"),
        ("client", "contextual"),
        ("client", "contextual"),
        ("key holder", "contextual"),
        ("server", "-"),
        ("not stated by the attack", "somebody_s"),
    ]
    assert attackers.unmeasured(report) == ["server"]
    told = Measurement(kind="source", plugin="source", metric="source_accuracy", value=1.0)
    assert attackers.unmeasured(plain([*rows, told])) == []


def test_what_a_client_s_own_update_gives_away_is_the_server_s_to_ask():
    rows = [
        coverage(1, 9, plugin="contextual", source="tuned-not-base", set="all"),
        coverage(1, 9, plugin="verbatim", source="tuned-not-base", records="victim"),
    ]
    report = plain(rows)
    report["target"]["update_of"] = "c1"
    found = {(line[0], line[1]) for line in leaks.attackers(report).rows}
    assert {("server", "contextual"), ("server", "verbatim"), ("client", "-")} <= found
    assert attackers.unmeasured(report) == ["public", "client", "key holder"]


def test_the_telling_row_is_the_judged_one():
    rows = [
        coverage(30, 60, source="tuned", set="all"),
        coverage(20, 60, source="tuned-not-base", set="all"),
        coverage(9, 30, source="tuned-not-base", set="exclusive"),
    ]
    [one] = attackers.headline_totals(plain(rows))
    assert (one["hits"], one["n"]) == (9, 30)


def test_severity_counts_each_string_once_at_its_worst():
    report = plain(
        findings=[
            leak("Ann", severity="low"),
            leak("Ann", severity="high", by="verbatim coverage"),
            leak("Bo", severity="unverified"),
            leak("flu", "DIAGNOSIS", "medium"),
            leak("123", "ID_CARD", "low"),
            leak("a@b", "COMMUNICATION", "low"),
        ]
    )
    assert leaks.severity(report).rows == (
        ("Illness and Medical History", "came out", "special category (Art. 9)",
         "-", "1", "-", "-", "contextual"),
        ("Identity Card Number", "came out", "national number (Art. 87)",
         "-", "-", "1", "-", "contextual"),
        ("Name", "came out", "-", "1", "-", "-", "1", "contextual, verbatim"),
        # Art. 95 is not Art. 9
        ("Communication", "came out", "-", "-", "-", "1", "-", "contextual"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "by"),
    [
        ("probability", "ranking inference_accuracy"),
        ("inversion", "inversion inversion_rate"),
        ("membership", "membership tpr"),
    ],
)
def test_what_is_told_apart_has_not_come_out(kind, by):
    rows = [number(kind, *by.split(), 0.9, source="tuned")]
    found = [leak("Ann", by=by, p_value=1e-6)]
    report = plain([*extraction(), *rows], findings=found)
    assert leaks.severity(report).rows[0][1] == "told apart"
    assert leaks.verified(report) == []


@given(st.permutations(range(6)))
def test_severity_does_not_depend_on_the_order(order):
    some = [leak(name, severity=level) for name in "ab" for level in ("high", "medium", "low")]
    report = plain(findings=[some[place] for place in order])
    assert leaks.severity(report).rows[0][3:7] == ("2", "-", "-", "-")


def test_failed_extraction_is_withheld_retrained_and_perhaps_notified():
    proven = [leak("a", p_value=0.01), leak("b", p_value=0.011), leak("c", p_value=None)]
    found = measures(plain(findings=[*proven, *findings(2)]))
    assert found[0].action == "Withhold the model."
    assert found[1].action.startswith("Retrain with a defence")
    assert found[2].action.startswith("If this model has left the controller already, assess")
    assert found[2].basis.startswith("1 findings of the kinds PERSON are verified")


def test_without_a_proven_leak_nobody_is_notified():
    found = [one.action for one in measures(plain(findings=[leak("a", severity="unverified")]))]
    assert not any("notify" in one for one in found)


def test_a_pass_names_nothing_to_hold_back_and_a_doubt_what_to_measure():
    rows = [
        coverage(0, 900, source=source, set="all")
        for source in ("tuned", "base", "tuned-not-base", "base-not-tuned", "control")
    ]
    rows.append(coverage(400, 400, source="known", set="all"))
    report = plain(rows, findings=[])
    assert report["verdict"]["status"] == "pass"
    assert [one.action for one in measures(report)] == [
        "Nothing has to be held back for what was measured."
    ]
    [doubt] = measures(plain([], findings=[]))
    assert doubt.action == "Measure what is not settled."


def test_an_altered_report_is_not_acted_upon():
    report = plain()
    altered = {**report, "verdict": {**report["verdict"], "status": "pass"}}
    assert [one.action for one in measures(altered)] == ["Do not rely on this report."]
    unfinished = plain(status="interrupted")
    assert [one.action for one in measures(unfinished)] == ["Finish the audit (--resume)."]


def test_a_flagged_client_is_heard():
    report = plain(attributed(), findings=flags(), policy=Policy())
    assert report["verdict"]["status"] == "fail"
    found = [one.action for one in measures(report)]
    assert found[0] == "Hear the flagged client before anything else."
    assert said(report)[17].status == "answered"


def test_a_date_of_expiry_is_a_day_after_the_audit():
    report = plain()
    assert str(issued(report)) == "2025-11-21"
    assert str(ownership(report, "us", "2026-11-21").expires) == "2026-11-21"
    assert ownership(report, "us", "") == ReportOwner(owner="us")
    for wrong in ("tomorrow", "2025-11-20", "20"):
        with pytest.raises(UsageError, match="--expires"):
            ownership(report, "", wrong)


def tried(*, measured=True):
    """Return a section of defences: training without one, and scrub."""
    number = {"value": 0.1, "low": 0.05, "high": 0.2}
    gap = {"value": -0.4, "low": -0.5, "high": -0.3}
    leak = {"attack": "contextual", "n": 9, "by_seed": [0.1], "mean": number}
    one = {"options": {}, "reason": "", "loss": None, "seconds": None, "tokens": 90, "bytes": 8,
           "flops": None}  # fmt: skip
    scrub = {**one, "defense": "scrub", "leaks": [{**leak, "difference": gap}]}
    refused = {**scrub, "leaks": [], "reason": "seed 1: no PII", "tokens": None, "bytes": None}
    return {
        "seeds": [1], "attacker": "c0", "victim": "c1", "attacks": ["contextual"],
        "tried": [
            {**one, "defense": "none", "leaks": [{**leak, "difference": None}]},
            scrub if measured else refused,
        ],
        "recommendations": ["To be tried first: scrub."],
    }  # fmt: skip


def test_defences_that_were_trained_answer_whether_one_holds_and_what_to_train_with():
    rows = [coverage(19, 52, source="tuned-not-base", set="exclusive")]
    report = plain(rows, defenses=tried())
    [held] = [found for one, found in answers(report) if one.number == 15]
    assert held.status == "answered"
    assert "To be tried first: scrub." in held.text
    [open_] = [found for one, found in answers(plain(rows)) if one.number == 15]
    assert open_.status == "open"
    refused = plain(rows, defenses=tried(measured=False))
    [none] = [found for one, found in answers(refused) if one.number == 15]
    assert none.status == "open"
    assert recheck(report).holds == recheck(plain(rows)).holds
    assert report["verdict"] == plain(rows)["verdict"]


def test_the_tables_of_defences_say_what_was_measured_and_what_was_not():
    bought, cost = defense_tables(plain(defenses=tried()))
    assert bought.rows[1] == ("scrub", "contextual", "10.0 [5.0, 20.0]", "-40.0 [-50.0, -30.0]")
    assert bought.rows[0][3] == "-"
    assert bought.notes[0] == "To be tried first: scrub."
    assert "seconds" not in cost.columns  # nobody timed it
    assert cost.rows[1][1:] == ("90", "8e-06")
    *_, missing = defense_tables(plain(defenses=tried(measured=False)))
    assert missing.rows == (("scrub", "seed 1: no PII"),)
    assert defense_tables(plain()) == []
