"""The tables of an audit of everything: what was judged, what was found, what was covered."""

import io
from dataclasses import replace

import pytest
from example_report import coverage, example, extraction, findings
from rich.console import Console

from fedaudit.api.errors import InputError
from fedaudit.api.policy import Policy
from fedaudit.report.document import validate
from fedaudit.report.renderers import markdown
from fedaudit.report.renderers.terminal import render_summary
from fedaudit.report.tables import assessment
from fedaudit.report.verdict.recheck import recheck

KINDS = Policy(name="ours", description="Ours.", kinds={"ID_CARD": 0.05})
COVERED = [
    {"class": "inversion", "edpb": "55 (iv)", "status": "not_applicable", "by": [], "access": [],
     "knowledge": [], "n": None, "reason": "no update"},
    {"class": "exfiltration", "edpb": "55 (ii)", "status": "run", "by": ["contextual"],
     "access": ["text"], "knowledge": ["own records"], "n": 1234, "reason": ""},
]  # fmt: skip
CONTEXT = {"release": "weights", "positions": ["outsider"], "declared_by": None}


def report(rows=()):
    made = example(measurements=[*extraction(), *rows], findings=findings(3))
    return replace(made, policy=KINDS, coverage=COVERED, context=CONTEXT).to_json()


def of_kind(n, victim, hits=0):
    return coverage(hits, n, source="tuned-not-base", label="ID_CARD", set="all", victim=victim)


def test_rows_that_did_not_fail_are_one_line_for_each_limit():
    [table] = assessment.judgement_tables(
        report([of_kind(5, "c0"), of_kind(9, "c1"), of_kind(7, "c2"), of_kind(5, "c3", 1)])
    )
    assert table.title == "Judged under the policy ours"
    assert table.notes == ("The policy says: Ours.",)
    [line] = [row for row in table.rows if "ID_CARD" in row[3]]
    # 1 of 5, by Wilson: the middle (1 + 1.92) / (5 + 3.84) = 0.330, and 0.294 either way.
    assert line == (
        "inconclusive",
        "contextual coverage: 4 rows, of which the highest",
        "1 / 5: 20.0 % [3.6, 62.4]",
        "at most 5% of ID_CARD, shown with 95%",
    )
    assert table.rows[0][0] == "fail"


def test_every_failure_has_a_line_of_its_own():
    found = report([replace(of_kind(20, name), hits=9, value=0.45, low=0.26, high=0.66)
                    for name in ("c0", "c1")])  # fmt: skip
    [table] = assessment.judgement_tables(found)
    kinds = [row for row in table.rows if "ID_CARD" in row[3]]
    assert [row[0] for row in kinds] == ["fail", "fail"]
    assert {"victim c0" in row[1] for row in kinds} == {True, False}


def test_shares_are_per_cents_and_what_every_judgement_is_about_goes_unsaid():
    row = coverage(3, 12, source="tuned-not-base", label="ID_CARD", set="exclusive")
    [table] = assessment.judgement_tables(report([row]))
    [line] = [line for line in table.rows if "ID_CARD" in line[1]]
    # Wilson's interval of 3 of 12: (3 + 1.92) / 15.84 = 0.311, and 0.222 on either side of it
    assert line[1:3] == (
        "contextual coverage (label ID_CARD)",
        "3 / 12: 25.0 % [8.9, 53.2]",
    )


def test_findings_are_counted_by_kind_and_severity():
    [table] = assessment.finding_counts(report())
    assert table.columns == ("kind", "high", "medium", "low", "unverified")
    total = sum(int(cell or 0) for row in table.rows for cell in row[1:])
    assert total == 3
    assert assessment.finding_counts(example(findings=[]).to_json()) == []


def test_coverage_says_what_does_not_apply_and_why():
    [table] = assessment.coverage(report())
    assert table.rows == (
        ("inversion", "55 (iv)", "does not apply", "-", "-", "no update"),
        ("exfiltration", "55 (ii)", "run", "contextual", "1,234", "text, own records"),
    )


def test_what_nobody_declared_is_said_to_be_so():
    assert assessment.context_facts(report()) == [
        ("release", "weights"), ("attackers", "outsider"), ("declared by", "not declared")
    ]  # fmt: skip


def test_other_reports_have_none_of_it():
    plain = example().to_json()
    assert assessment.coverage(plain) == assessment.judgement_tables(plain) == []
    assert assessment.context_facts(plain) == []


def test_the_summary_fits_80_columns_and_ends_with_the_verdict():
    out = io.StringIO()
    render_summary(report([of_kind(5, "c0")]), Console(file=out, width=80))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    places = [
        next(number for number, line in enumerate(lines) if line.startswith(word))
        for word in ("Audited", "Release", "Findings", "Coverage", "Judged", "Why", "Verdict: fail")
    ]
    assert places == sorted(places)


def test_a_forged_report_is_shown_or_refused_and_crashes_nothing():
    forged = report([of_kind(5, "c0")])
    forged["verdict"]["judgements"][0]["measurement"] = {"value": 1}
    with pytest.raises(InputError, match="judgements"):
        validate(forged)
    without = report([of_kind(5, "c0")])
    del without["verdict"]["policy"]
    validate(without)
    assert assessment.judgement_tables(without)[0].title == "Judged under the policy "
    odd = report([of_kind(5, "c0")])
    odd["verdict"]["policy"] = {"power": "much"}
    validate(odd)
    assert recheck(odd).holds is None
    odd["verdict"]["status"] = "inconclusive"  # only then the power matters
    with pytest.raises(InputError, match=r"verdict\.policy: power"):
        markdown.render(odd)
