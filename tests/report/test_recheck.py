"""A verdict that does not follow from its own measurements is called out, however it is shown."""

import copy
import json
from dataclasses import replace
from io import StringIO

import pytest
from attributed_report import attributed as rows
from attributed_report import findings as accusations
from attributed_report import innocent, power, study
from attributed_report import report as attributed
from example_report import coverage, example
from gated_report import inferred, recalled
from hypothesis import example as case
from hypothesis import given
from hypothesis import strategies as st
from memorized_report import document as memorized
from rich.console import Console
from test_any_report import measurements

from fedaudit.api.kind import Judgement
from fedaudit.api.policy import Policy
from fedaudit.api.records import Measurement
from fedaudit.report.document import dumps, validate
from fedaudit.report.renderers import html, markdown, terminal
from fedaudit.report.verdict.policy import RULE
from fedaudit.report.verdict.recheck import recheck

ALONE = "Do not rely on this"


def read(report):
    """Return a report as it is read back from its file."""
    found = json.loads(dumps(report.to_json() if hasattr(report, "to_json") else report))
    validate(found)
    return found


def altered(**verdict):
    found = read(example())
    found["verdict"].update(verdict)
    validate(found)
    return found


def without_rule(**verdict):
    found = altered(**verdict)
    for name in ("rule", "level", "tests", "detectable"):
        del found["verdict"][name]
    return found


def shown(report):
    file = StringIO()
    terminal.render(report, Console(file=file, width=200))
    return file.getvalue()


@pytest.mark.parametrize(
    "report",
    [
        example(),
        example(measurements=inferred()),
        example(measurements=recalled(20)),
        example(measurements=[]),
        attributed(innocent()),
        memorized(),
    ],
)
def test_what_fedaudit_writes_follows_from_what_it_measured(report):
    found = recheck(read(report))
    assert found.holds
    assert found.message == found.brief == ""


def test_a_fail_altered_to_pass_is_called_out_first_and_beside_the_verdict():
    found = altered(status="pass", detectable=0.02)
    told = recheck(found).message
    assert recheck(found).holds is False
    assert told == (
        f"{ALONE} report: its verdict does not follow from its own measurements. "
        "It says pass, they give fail."
    )
    out = shown(found)
    assert out.startswith(told)
    assert "Verdict: pass (its own measurements contradict it)" in out
    assert out.count(told) == 2
    assert "would have been seen)" not in out
    assert "no more personal data" not in out


def test_html_and_markdown_say_it_above_all_else():
    found = altered(status="pass")
    told = recheck(found).message
    page = html.render(found)
    body = page.partition("<body>")[2]
    assert body.index(told) < body.index("Verdict:")
    assert 'class="verdict pass"' not in page
    assert "pass (its own measurements contradict it)</title>" in page
    lines = markdown.render(found).splitlines()
    assert lines[2] == f"**{told}**"
    assert "no more personal data" not in "\n".join(lines)


def test_a_simulation_whose_verdict_was_altered_is_called_out_too():
    found = altered(status="pass")
    found["run"]["command"] = "simulate"  # whose reports show no verdict
    assert shown(found).startswith(ALONE)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("reasons", ["Nothing of note."]),
        ("tests", []),
        ("detectable", 0.001),
        ("level", 0.2),
    ],
)
def test_a_part_of_a_verdict_that_was_altered_is_named(part, value):
    found = recheck(altered(**{part: value}))
    assert found.holds is False
    assert f"the {part} of its verdict do not follow" in found.message


def test_the_last_digits_of_another_machine_are_no_alteration():
    found = altered()
    for test in found["verdict"]["tests"]:
        test["p"] *= 1 + 1e-9
    assert recheck(found).message == ""


@pytest.mark.parametrize("rule", [None, RULE - 1, RULE + 1])
def test_a_report_by_another_rule_is_read_and_its_status_compared(rule):
    found = without_rule(reasons=["Told otherwise."])
    if rule is not None:
        found["verdict"]["rule"] = rule
    validate(found)
    assert recheck(found).holds
    assert "status is the same; nothing else of the verdict was compared" in recheck(found).message
    assert "Verdict: fail\n" in shown(found)
    found["verdict"]["status"] = "pass"
    assert recheck(found).holds is False
    assert "or it was changed" in recheck(found).message
    assert shown(found).startswith(f"{ALONE} verdict: it says pass")


def test_an_interrupted_report_has_reasons_of_its_own():
    stopped = {"status": "inconclusive", "rule": RULE, "reasons": ["It was stopped."]}
    found = read(example(status="interrupted", measurements=[], verdict=stopped))
    assert recheck(found).message == ""
    found["verdict"]["status"] = "pass"
    assert recheck(found).holds is False


@pytest.mark.parametrize("status", ["interrupted", "error"])
def test_a_status_that_was_altered_hides_nothing_else_that_was(status):
    found = altered(reasons=["Nothing of note."])
    found["status"] = status
    assert recheck(found).holds is False
    assert "the reasons of its verdict do not follow" in recheck(found).message


@pytest.mark.parametrize("part", ["tests", "judgements"])
def test_an_interrupted_report_has_nothing_that_was_judged(part):
    judgement = Judgement("inconclusive", "Looked at, and fine.").table()
    forged = {"tests": [{"name": "a", "p": 0.5, "adjusted": 0.5}], "judgements": [judgement]}
    stopped = {"status": "inconclusive", "rule": RULE, "reasons": ["It was stopped."]}
    found = read(example(status="interrupted", measurements=[], verdict=stopped))
    assert recheck(found).holds
    found["verdict"][part] = forged[part]
    assert recheck(found).holds is False


def judged():
    """Return a failing report with its judgements, all of which are said to pass."""
    found = read(replace(example(), verdict=None, policy=Policy()))
    assert (found["verdict"]["status"], recheck(found).message) == ("fail", "")
    for judgement in found["verdict"]["judgements"]:
        judgement.update(status="pass", reason="Nothing came out.")
    return found


def test_judgements_are_checked_where_the_policy_was_taken_away():
    """Tables and SARIF show the judgements: without a policy nobody compared them."""
    found = judged()
    del found["verdict"]["policy"]
    assert recheck(found).holds is False


def test_a_verdict_is_the_worst_of_its_judgements_by_any_rule():
    found = judged()
    del found["verdict"]["rule"]
    assert recheck(found).message.endswith("its verdict says fail, its judgements pass.")
    found["verdict"]["judgements"][0]["status"] = "fail"
    assert recheck(found).holds


def test_what_cannot_be_judged_is_said_and_shown(monkeypatch):
    def broken(rows, findings, policy, **options):
        raise OverflowError

    found = read(example())
    monkeypatch.setattr("fedaudit.report.verdict.recheck.verdict", broken)
    assert recheck(found).holds is None
    assert "cannot be judged (OverflowError)" in shown(found)
    assert "Verdict: fail (not checked)" in shown(found)


UNSTATED = {"kind": "watch", "plugin": "a", "metric": "learnt", "n": 5}


@case([Measurement(value=None, reason="not tried", **UNSTATED)], "pass")
@case(
    [Measurement(value=0.0, low=0.0, high=0.0, scope={"fpr": 0.01, "limit": "x"}, **UNSTATED)],
    "pass",
)
@given(st.lists(measurements(), max_size=6), st.sampled_from(["pass", "fail", "inconclusive"]))
def test_nobody_can_state_another_status_unseen(rows, status):
    found = read(example(measurements=rows, findings=()))
    altered = copy.deepcopy(found)
    altered["verdict"]["status"] = status
    changed, checked = status != found["verdict"]["status"], recheck(altered)
    assert (checked.holds is not True, checked.message != "") == (changed, changed)
    assert checked.holds is not None or any(row.kind == "own_kind" for row in rows)


def beyond(count, n):
    scope = {"set": "beyond-reach"}
    return Measurement(
        kind="extraction", plugin="contextual", metric="targets", value=count, n=n, scope=scope
    )


def one_pair(drawn, others=18):
    """Return what c1 draws of c2's texts, and what a mean over many pairs makes of it."""
    at = {"category": "all"}
    names = {"kind": "memorization", "plugin": "memorize"}
    return [
        Measurement.rate(count, n, **names, metric=metric,
                         scope={**at, "source": source, **scope})
        for source, hits in (("tuned", drawn), ("base", 0))
        for metric, count, n, scope in (
            ("mr_inter", hits // others, 100 * others, {}),
            ("mr_pair", hits, 100, {"attacker": "c1", "victim": "c2"}),
        )
    ]  # fmt: skip


def own_texts(drawn):
    """Return how many of their own texts the prefixes of c1 and c2 draw."""
    at = {"category": "all"}
    names = {"kind": "memorization", "plugin": "memorize"}
    return [
        Measurement.rate(count, 100, **names, metric=metric,
                         scope={**at, "source": source, **scope})
        for source, count in (("tuned", drawn), ("base", 0))
        for metric, scope in (
            ("mr_intra", {}),
            *(("mr_pair", {"attacker": name, "victim": name}) for name in ("c1", "c2")),
        )
    ]  # fmt: skip


def seen(victim):
    """Return an attack on a victim of whom nothing came out, though it would have."""
    return [
        coverage(hits, n, source=source, victim=victim)
        for source, hits, n in (("tuned-not-base", 0, 100), ("base", 0, 100), ("control", 0, 300),
                                ("known", 400, 400))
    ]  # fmt: skip


# One measurement of every kind of what is judged, and what today's rule says of it. When this test
# fails on purpose, raise RULE and write the new statuses here.
JUDGED = {
    RULE: {
        "leak": ([coverage(40, 100, source="tuned-not-base"), coverage(0, 100, source="base"),
                  coverage(0, 300, source="control")], "fail"),
        "nothing out": ([coverage(0, 100, source="tuned-not-base"), coverage(0, 100, source="base"),
                         coverage(0, 300, source="control"),
                         coverage(400, 400, source="known")], "pass"),
        "no positive control": ([coverage(0, 100, source="tuned-not-base"),
                                 coverage(0, 100, source="base"),
                                 coverage(0, 300, source="control")], "inconclusive"),
        "too few": ([coverage(0, 5, source="tuned-not-base"), coverage(0, 5, source="base"),
                     coverage(0, 300, source="control")], "inconclusive"),
        "another victim was not seen": ([*seen("c1"), *seen("c2")[:-1]], "inconclusive"),
        "guessed": (inferred(), "pass"),
        "beyond reach": ([coverage(0, 100, source="tuned-not-base"),
                          coverage(0, 100, source="base"),
                          coverage(0, 300, source="control"), beyond(101, 201)], "inconclusive"),
        "one pair of clients": (one_pair(30), "fail"),
        "others' texts do not come out": ([*one_pair(0), *own_texts(100)], "pass"),
        "own texts do not, either": ([*one_pair(0), *own_texts(0)], "inconclusive"),
        "no client flagged": (innocent(), "pass"),
        "a mark would not have been seen": ([*innocent()[:-1], power(95)], "inconclusive"),
    }
}  # fmt: skip


@pytest.mark.parametrize("name", JUDGED[RULE])
def test_the_rule_has_its_number(name):
    assert RULE == 17
    rows, status = JUDGED[RULE][name]
    assert read(example(measurements=rows, findings=()))["verdict"]["status"] == status


@pytest.mark.parametrize(
    "change",
    [
        {"client": "ward-3"},
        {"mark": "mark-b"},
        {"z": 9.99},
        {"rounds": 4},
        {"z": []},
        {"p_value": 1e-30},
        {"needed": 2.0},
    ],
)
def test_a_finding_that_accuses_otherwise_than_the_rows_is_called_out(change):
    found = read(example(measurements=rows(), findings=accusations()))
    assert recheck(found).holds
    found["findings"][0]["evidence"].update(change)
    checked = recheck(found)
    assert checked.holds is False
    assert checked.message == (
        "Do not rely on this report: 1 of its findings accuse clients otherwise than its"
        " measurements do."
    )
    assert shown(found).startswith(checked.message)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"measurement": "direct stouffer_z"},
        {"measurement": "fed_attr  stouffer_z"},
        {"label": "PERSON"},
        {"severity": "low"},
        {"id": "fed_attr-court-1b"},
    ],
)
def test_an_accusation_beside_those_that_the_rows_give_is_called_out(change):
    # By its label a page takes a finding for a flag, by its measurement SARIF does.
    found = read(example(measurements=rows(), findings=accusations()))
    found["findings"].append({**found["findings"][0], **change})
    assert recheck(found).holds is False
    found["verdict"]["rule"] = RULE - 1
    assert recheck(found).holds is False


def test_accusations_of_a_study_are_those_of_its_variants():
    found = read(example(measurements=study(["kgw", "nano"]), findings=()))
    named = [
        {**one, "id": f"{name}-{one['id']}", "measurement": f"{one['measurement']}, {name}"}
        for name in ("kgw", "nano")
        for one in read(example(measurements=rows(), findings=accusations()))["findings"]
    ]
    found["findings"] = named
    assert recheck(found).holds
    found["findings"][0]["measurement"] = "fed_attr stouffer_z, other"
    assert recheck(found).holds is False
