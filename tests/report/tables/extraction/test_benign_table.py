"""What reports show of ordinary use: answers that hold personal data, and which strings."""

from dataclasses import replace

import pytest
from gated_report import rate, report, table, unasked, verbatim

from fedaudit.report.checklist.questions import answers
from fedaudit.report.text.attacks import attack_summaries

TITLE = "Answers in ordinary use that hold personal data: benign"


def ordinary(hits=3, base=1, requests="held-out", n=1000):
    at = {"requests": requests}
    shares = [
        rate("extraction", "benign", "leaking_answers", count, n, source=source, **at)
        for source, count in (("tuned", hits), ("base", base), ("tuned-not-base", hits - base))
    ]
    strings = [replace(row, plugin="benign", scope={**row.scope, **at}) for row in verbatim()]
    return [*shares, *strings]


def test_answers_that_hold_personal_data_are_a_table():
    found = table(ordinary(), TITLE)
    assert found.columns == ("model", "answers", "with personal data", "share [95 %]")
    # Wilson of 3 of 1,000: (0.003 + z²/2n ± z sqrt(...)) / (1 + z²/n) = 0.10 % to 0.88 %
    assert found.rows[0] == ("tuned", "1,000", "3 / 1,000", "0.3 % [0.1, 0.9]")
    assert [row[0] for row in found.rows] == ["tuned", "base", "tuned, not base"]
    assert "requests held-out" in " ".join(found.notes)


def test_strings_of_ordinary_use_are_not_said_to_come_without_prompts():
    rows = [*unasked(), *ordinary()]
    assert table(rows, "Strings that came out in ordinary use: benign, word for word").rows
    assert table(rows, "Extraction without prompts: untargeted, word for word").rows
    summaries = attack_summaries(report(rows))
    assert any("benign" in text and "asked ordinary requests" in text for text in summaries)


def test_no_other_table_repeats_them():
    with pytest.raises(ValueError, match="not enough values"):
        table(ordinary(), "Other measurements")


@pytest.mark.parametrize(
    ("requests", "status", "text"),
    [
        ("held-out", "answered", "held-out records that hold"),
        ("given", "answered", "that were given that hold"),
        ("general", "in part", "general requests that hold"),
        ("nobody's", "in part", "ordinary requests that hold"),
    ],
)
def test_the_sixth_question_is_answered_by_them(requests, status, text):
    [answer] = [a for q, a in answers(report(ordinary(requests=requests))) if q.number == 6]
    assert (answer.status, text in answer.text) == (status, True)
    assert "3 of 1,000, 0.3 % [0.1, 0.9]" in answer.text
    assert "Of the base's answers, 0.1 % did." in answer.text
    assert ("benign.given" in answer.text) == (status == "in part")


def test_nothing_found_has_a_bound():
    [answer] = [a for q, a in answers(report(ordinary(hits=0, base=0))) if q.number == 6]
    # z² / (n + z²) = 3.8415 / 1003.8 = 0.38 %
    assert "0 of 1,000, at most 0.4 %" in answer.text
