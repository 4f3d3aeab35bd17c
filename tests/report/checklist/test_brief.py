"""What an officer reads first claims no more than the judgements, and names parties, not paths."""

from dataclasses import replace
from datetime import date

import attributed_report
import gated_report
import memorized_report
import pytest
from example_report import coverage, example, extraction, number

from fedaudit.api.kind import Judgement
from fedaudit.api.records import Finding, Measurement
from fedaudit.report.checklist import leaks, questions
from fedaudit.report.checklist.brief import brief, byline, kind_name
from fedaudit.report.checklist.measures import measures
from fedaudit.report.checklist.validity import ReportOwner


def facts(report, **owned):
    return {one.question: " ".join(one.answer) for one in brief(report, ReportOwner(**owned))}


def finding(label="PERSON", attack="contextual", **evidence):
    return Finding(
        id=f"{label}-{evidence}", severity="high", label=label,
        measurement=f"{attack} coverage", evidence=evidence,
    )  # fmt: skip


def failed(*rows, **sections):
    """Return a report whose judgements fail these rows."""
    judgements = [Judgement("fail", "It leaks.", "leak", row, "nothing").table() for row in rows]
    verdict = {"status": "fail", "reasons": ["It leaks."], "judgements": judgements}
    return example(verdict=verdict, **sections).to_json()


FEW = [
    coverage(1, 50, source="tuned-not-base", set="all"),
    coverage(1, 50, source="base", set="all"),
    coverage(1, 50, source="control", set="all"),
]


def test_a_leak_names_people_kinds_attackers_and_their_cost():
    told = facts(example(measurements=extraction()).to_json())
    assert "strings of personal data came out." in told["How many people"]
    assert "chance" not in told["How many people"]
    assert told["Which kinds of data"].startswith("Name 12.")
    assert "Any member of the federation with records of its own" in told["Who could do it"]
    assert "questions" in told["Who could do it"]
    assert told["What to do now"].startswith("Withhold the model.")


def test_what_chance_explains_is_said_to_be_so():
    report = example(verdict=None, measurements=FEW, findings=[finding(hmac="a")]).to_json()
    assert report["verdict"]["status"] != "fail"
    told = facts(report)
    assert (
        "1 of 50 strings of personal data came out, which chance may explain."
        in (told["How many people"])
    )
    assert told["Which kinds of data"] == "None that chance does not explain."
    assert told["Who could do it"] == "Not settled for contextual."
    assert "notify" not in told["What to do now"]


@pytest.mark.parametrize(
    ("hits", "n", "told"), [(1800, 5200, "1,800 of 5,200"), (0, 1100, "0 of 1,100")]
)
def test_numbers_above_a_thousand_are_whole(hits, n, told):
    rows = [coverage(hits, n, source="tuned-not-base", set="all")]
    report = example(verdict=None, measurements=rows).to_json()
    assert f"{told} strings of personal data came out" in facts(report)["How many people"]


def test_what_was_computed_is_expected_and_not_counted():
    """By hand: 0.25 of 20 strings are 5; 0.5 * (1 - 0.1) + 0.25 names are 0.7."""
    exact = {"source": "tuned-not-base", "set": "all", "estimator": "exact"}
    share = replace(coverage(5, 20, **exact), hits=None)
    people = Measurement(
        kind="persons", plugin="contextual", metric="persons", value=2.5, n=4,
        scope={"source": "tuned", "estimator": "exact"},
    )  # fmt: skip
    found = [
        finding(hmac="a", probability=0.5, probability_of_base=0.1),
        finding(hmac="b", probability=0.25, probability_of_base=None),
        finding("DISEASE", hmac="c"),
    ]
    report = failed(share, measurements=[share, people], findings=found)
    told = facts(report)
    assert "An expected 5 of 20 strings of personal data came out." in told["How many people"]
    assert told["How many people"].startswith("An expected 2.5 of 4 people are exposed.")
    assert "Name 0.7 (expected)" in told["Which kinds of data"]
    assert ", expected" not in told["Which kinds of data"]
    assert leaks.COMPUTED in leaks.severity(report).notes
    assert leaks.COMPUTED not in leaks.severity(example().to_json()).notes


def test_special_kinds_come_first_and_each_string_counts_once():
    found = [
        finding(hmac="a"), finding(hmac="a", documents=2), finding(hmac="b"),
        finding("DISEASE", hmac="c"),
    ]  # fmt: skip
    told = facts(example(findings=found).to_json())["Which kinds of data"]
    assert told.index("Art. 9") < told.index("Name 2")


INFERRED = replace(
    coverage(5, 9, plugin="ranking", source="tuned"),
    kind="probability", metric="inference_accuracy",
)  # fmt: skip
NOT_SEARCHED = "Passages were not searched for the special kinds of GDPR 9, 10 and 87."


def leaking(attack, found, rows=()):
    report = example(verdict=None, measurements=[*extraction(attack), *rows], findings=found)
    return report.to_json()


def passage(p_value, attack="verbatim"):
    return finding("DOCUMENT", attack, hmac=f"passage {p_value}", p_value=p_value)


def test_a_passage_may_hold_special_kinds_which_no_one_looked_for():
    report = leaking("verbatim", [passage(1e-6)])
    assert facts(report)["Which kinds of data"] == f"whole passages 1. {NOT_SEARCHED}"
    basis = " ".join(measure.basis for measure in measures(report))
    assert "passages were not searched for such kinds" in basis
    assert "none of" not in basis
    assert [line[2] for line in leaks.severity(report).rows] == ["not searched"]
    assert leaks.NO_KINDS in leaks.severity(report).notes


SOURCE = Measurement(
    kind="source", plugin="source", metric="source_accuracy", value=0.75, low=0.5, high=0.9,
    n=40, hits=30, chance=0.365, scope={"clients": 3},
)  # fmt: skip
OF_CLIENT = replace(SOURCE, value=1.0, hits=40, scope={"clients": 3, "client": "c0"})
UNREAD = Measurement.missing(
    "the updates are sums", kind="reconstruction", plugin="reconstruction",
    metric="reconstruction_rate", scope={"client": "c0", "source": "tuned"},
)  # fmt: skip


def test_what_the_server_finds_out_is_told_though_it_is_not_judged():
    sentence = (
        "The server (source): 30 of 40 records were put down to the client that they are of;"
        " guessing gives 36.5 %. This is not judged."
    )
    report = example(verdict=None, measurements=[OF_CLIENT, SOURCE]).to_json()
    told = facts(report)
    assert told["Who could do it"] == sentence
    assert told["Which kinds of data"] == leaks.NOT_LOOKED_FOR
    [line] = [line for line in leaks.attackers(report).rows if line[0] == "server"]
    assert line[1] == "source"
    assert "30 of 40" in line[-1]
    assert leaks.likelihood(report).rows[0][3] == "0.365"
    assert questions.attackers(report).text != "Nothing was measured from any attacker's position."
    report = example(verdict=None, measurements=[SOURCE, *FEW]).to_json()
    assert facts(report)["Who could do it"] == f"Not settled for contextual. {sentence}"


def test_an_attack_without_a_number_is_not_called_tried_and_found_nothing():
    told = facts(example(verdict=None, measurements=[UNREAD]).to_json())
    assert told["Who could do it"] == "Not known: reconstruction gave no number."
    assert told["Which kinds of data"] == leaks.NOT_LOOKED_FOR
    told = facts(example(verdict=None, measurements=[]).to_json())
    assert told["Who could do it"] == "Not known: no attack was made."


def test_why_people_were_not_counted():
    def told(*rows):
        report = example(verdict=None, measurements=rows).to_json()
        return facts(report)["How many people"]

    passages = coverage(0, 9, plugin="verbatim", source="tuned", records="victim")
    pair = coverage(0, 9, source="tuned", set="all", attacker="c0", victim="c1")
    reason = "People were not counted: only an attack by prefixes on one victim does so, not "
    assert told(passages, SOURCE).startswith(f"{reason}source, verbatim.")
    assert told(pair).startswith(f"{reason}pairs of clients.")
    drawn = number("memorization", "memorize", "mr_pair", 0.1, attacker="c0", victim="c1")
    assert told(drawn) == f"{reason}memorize."
    assert told(*FEW).startswith("People were not counted: the records do not say whose they are")
    assert told(UNREAD) == "People were not counted: no attack gave a number."


TOGETHER = "came out, which chance may explain one by one, though not all together."


def test_passages_that_are_not_listed_are_counted():
    strings = "Strings count all together, whatever their severity, where their attack is proven."
    found = [passage(1e-6), passage(0.5), passage(0.6)]
    told = facts(leaking("verbatim", found))["Which kinds of data"]
    assert told == f"whole passages 1. 2 more passages {TOGETHER} {NOT_SEARCHED}"
    told = facts(leaking("verbatim", found[:2]))["Which kinds of data"]
    assert f" 1 more passage {TOGETHER}" in told
    told = facts(leaking("verbatim", found[1:]))["Which kinds of data"]
    assert told == f"2 passages {TOGETHER} {NOT_SEARCHED}"
    both = [*found, finding(hmac="a")]
    assert strings in facts(leaking("verbatim", both, extraction()))["Which kinds of data"]
    told = facts(leaking("verbatim", [found[0], both[-1]], extraction()))["Which kinds of data"]
    assert strings not in told
    assert TOGETHER not in told
    unproven = example(verdict=None, measurements=FEW, findings=found).to_json()
    assert TOGETHER not in facts(unproven)["Which kinds of data"]


def test_what_is_said_of_strings_is_not_said_of_the_passages_beside_them():
    found = [passage(1e-6), finding(hmac="a", p_value=1e-6)]
    report = leaking("verbatim", found, extraction())
    told = facts(report)["Which kinds of data"]
    none = "None of the special kinds of GDPR 9, 10 and 87 is among the strings."
    assert told.endswith(f"{none} {NOT_SEARCHED}")
    basis = " ".join(measure.basis for measure in measures(report))
    assert "with a protection of their own: none of the strings; passages were not" in basis
    without = leaking("contextual", found[1:])
    assert facts(without)["Which kinds of data"].endswith(" is among them.")
    assert leaks.NO_KINDS not in leaks.severity(without).notes


def test_special_kinds_that_were_recognised_are_named():
    found = [
        replace(finding("ID_CARD", hmac="b"), measurement="ranking inference_accuracy"),
        replace(finding("PERSON", hmac="c"), measurement="ranking inference_accuracy"),
    ]
    report = failed(INFERRED, measurements=[INFERRED], findings=found)
    told = facts(report)["Which kinds of data"]
    assert told.endswith(
        "Recognised among other data, without coming out: "
        "Identity Card Number 1 (national number (Art. 87))."
    )
    assert (
        "Recognised"
        not in facts(failed(measurements=[INFERRED], findings=found))["Which kinds of data"]
    )


@pytest.mark.parametrize("titles", [{}, {"c1": "St Mary's Hospital"}])
def test_parties_are_named_and_paths_are_not(titles):
    report = example().to_json()
    report["run"]["config"] = {"victim": "/srv/x/c1.jsonl", "prefixes": "/srv/x/c0.jsonl"}
    told = facts(report, parties=titles)["Whose data"]
    assert "/srv" not in told
    name = "St Mary's Hospital (c1)" if titles else "c1"
    assert told == f"Records of {name}, asked for by c0."
    report["context"] = {"release": None, "positions": [], "declared_by": None, "parties": titles}
    assert facts(report)["Whose data"] == told


def test_the_options_of_plugins_name_no_party():
    step = {
        "victim": "c1.jsonl", "prefixes": "c0.jsonl",
        "attacks": {"laft": {"prefixes": "contextual", "victim": "x", "data": "y"}},
        "detector": {"names": {"attacker": "z"}},
    }  # fmt: skip
    report = example().to_json()
    for config in (step, {"steps": {"extraction": step, "pairs": {}}}):
        report["run"]["config"] = config
        assert facts(report)["Whose data"] == "Records of c1, asked for by c0."


def test_a_report_without_coverage_says_that_other_attacks_were_not_made():
    assert "Attacks of other classes" in facts(example().to_json())["Not looked for"]


def test_records_that_were_not_looked_for_are_named():
    report = example().to_json()
    left_out = {"other clients": "the records of c2 are not at hand", "pairs": "no records"}
    report["run"]["config"] = {"left_out": left_out}
    told = facts(report)["Not looked for"]
    assert "The records of c2 are not at hand." in told
    assert "no records" not in told


def test_texts_that_no_continuation_was_compared_with_are_named():
    some = [
        memorized_report.ratio("searched", hits, n, victim=victim, text=text)
        for hits, n, victim, text in (
            (90, 100, "c0", "input"), (0, 1100, "c0", "output"), (0, 100, "c1", "output"),
        )
    ]  # fmt: skip
    by_pair = memorized_report.ratio("searched", 3, 4, attacker="c0", victim="c1")
    report = memorized_report.document([*memorized_report.memorized(), *some, by_pair])
    told = "10 of 100 texts and 1,200 of 1,200 answers of the clients were not looked for."
    assert f"By memorize, {told}" in facts(report)["Not looked for"]
    alone = memorized_report.document([*memorized_report.memorized(), by_pair])
    assert "By memorize" not in facts(alone)["Not looked for"]


def test_an_attribution_answers_other_questions():
    report = attributed_report.report(
        attributed_report.attributed(), findings=attributed_report.findings()
    )
    told = facts(report)
    assert "Whose data" not in told
    assert "A flag is evidence, not proof." in told["Which parties"]
    assert told["What to do now"].startswith("Hear the flagged client")


def test_a_study_has_no_single_answer():
    told = facts(gated_report.report(gated_report.study()))
    assert "variants" in told["What was compared"]
    assert "How many people" not in told


def test_who_made_it_when_and_until_when():
    report = example().to_json()
    owned = ReportOwner(owner="The DPO", expires=date(2030, 1, 2))
    assert byline(report, owned).startswith("By The DPO with fedaudit 0.1.0 on ")
    assert facts(report, expires=date(2030, 1, 2))["Valid until"].startswith("2 January 2030. ")


def test_labels_are_called_by_their_kind():
    assert kind_name("PERSON") == "Name"
    assert kind_name("DOCUMENT") == "whole passages"
    assert kind_name("CASE_NO") == "CASE_NO"
