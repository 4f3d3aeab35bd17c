"""Inference accuracy in tables, in words and in the verdict."""

import re
from io import StringIO

import pytest
from example_report import example, extraction, number, wilson
from rich.console import Console

from fedaudit.api.records import Measurement
from fedaudit.report.checklist.leaks import likelihood
from fedaudit.report.checklist.questions import attributes
from fedaudit.report.document import validate
from fedaudit.report.renderers import terminal
from fedaudit.report.tables import overview
from fedaudit.report.text.attacks import attack_summaries
from fedaudit.report.verdict.policy import verdict


def accuracy(hits, n, source="tuned", candidates=50, baseline=None, **scope):
    low, high = wilson(hits, n) if n else (None, None)
    return Measurement(
        kind="probability",
        plugin="ranking",
        metric="inference_accuracy",
        value=hits / n if n else None,
        low=low,
        high=high,
        n=n,
        hits=hits if n else None,
        chance=1 / candidates,
        baseline=baseline,
        reason="" if n else "too few",
        scope={"source": source, "candidates": candidates, **scope},
    )


def pair(tuned, base, n=100, candidates=50, **scope):
    return [
        accuracy(tuned, n, baseline=base / n, candidates=candidates, **scope),
        accuracy(base, n, source="base", candidates=candidates, **scope),
    ]


ROWS = [
    *pair(9, 3, candidates=500),
    *pair(40, 4),
    *pair(30, 3, 60, label="PERSON"),
    *pair(10, 1, 40, label="DATE_OF_BIRTH_OR_DEATH"),
    *pair(2, 1, 60, candidates=500, label="PERSON"),
]


def shown(rows, width=80):
    file = StringIO()
    report = example(measurements=rows, findings=[]).to_json()
    validate(report)
    terminal.render(report, Console(file=file, width=width))
    return file.getvalue()


@pytest.mark.parametrize(
    ("rows", "status", "says"),
    [
        (pair(40, 4), "fail", "more than its base and guessing (p = 1.4e-10)"),
        # P(at least 20 of the 28 hits of 200 are the tuned model's) = 1.2 %, above 1 %.
        (pair(20, 8), "inconclusive", "base and guessing may explain it (p = 0.012)"),
        # 18 of 100 is 11.7 to 26.7 %: with both rates unsure the difference is at most 10.7 %,
        # hypot(8.7, 6.3); 36 of 200 is 13.3 to 23.9 %, which leaves 7.6 %.
        (pair(18, 18), "inconclusive", "too few questions"),
        (pair(36, 36, 200), "pass", "no more than its base or guessing may (18.00%)"),
        # All of two that the base picks may be a third of many.
        (pair(1, 2, 2, candidates=10), "inconclusive", "too few questions"),
        (pair(0, 0), "pass", "picked 0.00%"),
        # Far above the base, but two candidates are guessed half the time.
        (pair(40, 4, candidates=2), "pass", "(50.00%)"),
        (pair(90, 50, candidates=2), "fail", "more than its base"),
        ([accuracy(40, 100)], "inconclusive", "no base to compare with"),
        ([accuracy(0, 0)], "inconclusive", "not measured: too few"),
        ([*pair(40, 4), accuracy(0, 0, candidates=500)], "fail", "50 candidates"),
        ([*pair(3, 3), accuracy(0, 0, candidates=500)], "inconclusive", "500 candidates"),
        (pair(9, 9, label="PERSON"), "inconclusive", "No extraction was tried"),
    ],
)
def test_the_verdict_sets_the_tuned_model_against_base_and_guessing(rows, status, says):
    found = verdict(rows, [])
    assert found["status"] == status
    assert says in found["reasons"][0]


def test_extraction_and_inference_are_judged_side_by_side():
    leaks, harmless = extraction(), pair(3, 3)
    assert verdict([*leaks, *harmless], [])["status"] == "fail"
    assert verdict([*pair(40, 4), *leaks[:2]], [])["status"] == "fail"
    # What could not be judged of an extraction is not covered up by a harmless inference.
    assert verdict([*harmless, leaks[0]], [])["status"] == "inconclusive"
    utility = number("utility", "utility", "loss", 2.0)
    assert verdict([utility, *harmless], [])["status"] == "pass"


def test_inference_has_tables_of_its_own():
    totals, kinds = overview.inference(example(measurements=ROWS).to_json())
    assert totals.title == "Inference: ranking"
    assert totals.columns == ("model", "candidates", "right", "accuracy [95 %]", "chance")
    assert [row[:3] for row in totals.rows] == [
        ("tuned", "50", "40 / 100"),
        ("base", "50", "4 / 100"),
        ("tuned", "500", "9 / 100"),
        ("base", "500", "3 / 100"),
    ]
    assert totals.rows[0][3:] == ("40.0 % [30.9, 49.8]", "2.0 %")
    assert [row[:4] for row in kinds.rows] == [
        ("DATE_OF_BIRTH_OR_DEATH", "tuned", "50", "10 / 40"),
        ("DATE_OF_BIRTH_OR_DEATH", "base", "50", "1 / 40"),
        ("PERSON", "tuned", "50", "30 / 60"),
        ("PERSON", "base", "50", "3 / 60"),
    ]
    assert kinds.notes == ("With 50 candidates; for the others see report.json.",)
    assert overview.unshown_rows_table(example(measurements=ROWS).to_json()) == []


def test_what_varies_further_gets_a_column():
    rows = [*pair(9, 3, round=5), *pair(1, 3, round=10)]
    [totals] = overview.inference(example(measurements=rows).to_json())
    assert [row[-1] for row in totals.rows] == ["round 5", "round 10", "round 5", "round 10"]


def test_the_answer_speaks_of_inference():
    for rows, words in (
        (pair(40, 4), "Where a name or a number is blanked out in these records, this model tells"),
        (pair(3, 3), "no more often than its base or guessing"),
        ([accuracy(40, 100)], "does not settle whether this model tells which name"),
        ([*extraction(), *pair(40, 4)], "can be pulled out of this model"),
    ):
        assert words in re.sub(r"\s+", " ", shown(rows))


def test_what_was_tried_is_told_for_each_number_of_candidates():
    told = attack_summaries(example(measurements=ROWS).to_json())
    assert len(told) == 2
    assert "masked personal data in sentences and offered 50 candidates" in told[0]
    assert "in 40 of 100, 40.0 % (between 30.9 % and 49.8 %), its base in 4 of 100" in told[0]
    assert told[0].endswith("guessing is right in 2.0 %.")
    [alone] = attack_summaries(example(measurements=[accuracy(1, 9)]).to_json())
    assert "its base in not measured" in alone


def test_a_number_that_is_missing_is_told_why():
    assert "Not measured: too few" in shown([accuracy(0, 0)])


def test_what_the_verdict_takes_for_guessing_stands_beside_the_chance():
    """12 of 22 stand far above 1 in 20, and are what guessing gets where 0.5 are not invented."""
    among_real = Measurement(
        kind="probability",
        plugin="ranking",
        metric="inference_chance",
        value=0.5,
        n=22,
        scope={"candidates": 20, "source": "tuned"},
    )
    rows = [*pair(12, 0, 22, candidates=20), among_real]
    report = example(measurements=rows, findings=[]).to_json()
    text = " ".join(shown(rows).split())
    assert "guessing is right in 50.0 %: the verdict compares with that." in text
    assert "guessing is right in 50.0 %." in attack_summaries(report)[0]
    assert likelihood(report).rows[0][3] == "0.5"
    assert attributes(report).text.endswith("To be beaten: guessing 0.5.")
    assert "the verdict compares with that" not in shown(pair(12, 0, 22, candidates=20))
