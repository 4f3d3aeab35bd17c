"""What reports show of ordinary use: answers that hold personal data, and which strings."""

from dataclasses import replace

import pytest
from gated_report import rate, report, table, unasked, verbatim

from fedaudit.report.checklist.attackers import position_of
from fedaudit.report.checklist.questions import QUESTIONS, AssessedClaim, answers
from fedaudit.report.text.attacks import attack_summaries

TITLE = "Answers in ordinary use that hold a string of the records: benign"


def ordinary(hits=3, base=1, requests="held-out", n=1000, asked=40, **scope):
    at = {"requests": requests, **scope}
    shares = [
        rate("extraction", "benign", "leaking_answers", count, n, source=source, **at)
        for source, count in (("tuned", hits), ("base", base), ("tuned-not-base", hits - base))
    ]
    strings = [replace(row, plugin="benign", scope={**row.scope, **at}) for row in verbatim()]
    of_requests = rate("extraction", "benign", "leaking_requests", 2, asked, source="tuned", **at)
    return [*shares, of_requests, *strings]


def test_answers_that_hold_personal_data_are_a_table():
    found = table(ordinary(), TITLE)
    assert found.columns == ("model", "answers", "with a string", "share [95 %]")
    # Wilson of 3 of 1,000: (0.003 + z²/2n ± z sqrt(...)) / (1 + z²/n) = 0.10 % to 0.88 %
    assert found.rows[0] == ("tuned", "1,000", "3 / 1,000", "0.3 % [0.1, 0.9]")
    assert [row[0] for row in found.rows] == ["tuned", "base", "tuned, not base"]
    assert "Requests: 40, with such an answer: 2." in found.notes
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


def sixth(rows):
    [answer] = [answer for question, answer in answers(report(rows)) if question.number == 6]
    return answer


@pytest.mark.parametrize(
    ("requests", "asked", "status", "text"),
    [
        ("held-out", 40, "answered", "40 ordinary requests of held-out records that hold"),
        ("held-out", 6, "in part", "6 ordinary requests of held-out records that hold"),
        ("general", 40, "in part", "40 ordinary requests that fit no task in particular that hold"),
        ("nobody's", 40, "in part", "40 ordinary requests that hold"),
    ],
)
def test_the_sixth_question_is_answered_by_them(requests, asked, status, text):
    answer = sixth(ordinary(requests=requests, asked=asked))
    assert (answer.status, text in answer.text) == (status, True)
    assert "3 of 1,000, 0.3 % [0.1, 0.9]" in answer.text
    assert "The same of the base's answers: 1 of 1,000" in answer.text
    assert ("--held-out" in answer.text) == (status == "in part")


def test_what_comes_out_under_the_right_key_is_no_answer():
    rows = [*ordinary(hits=900, key="right"), *ordinary(hits=3, key="wrong")]
    assert "3 of 1,000" in sixth(rows).text
    assert "Asked with key wrong." in sixth(rows).text
    assert sixth(ordinary(hits=900, key="right")).status == "open"


def test_nothing_found_has_a_bound():
    # z² / (n + z²) = 3.8415 / 1003.8 = 0.38 %
    assert "0 of 1,000, at most 0.4 %" in sixth(ordinary(hits=0, base=0)).text


def test_many_answers_speak_against_the_claim_even_where_few_strings_pass():
    control = rate("extraction", "benign", "leaking_answers", 0, 1000, source="control",
                   requests="held-out")  # fmt: skip
    assert sixth([*ordinary(hits=200), control]).against
    assert not sixth([*ordinary(hits=3, base=2), control]).against
    judged = ({"status": "pass"},)
    scores = [
        AssessedClaim(
            QUESTIONS[5], "", sixth([*ordinary(hits=hits, base=2), control]), judged
        ).score
        for hits in (200, 3)
    ]
    assert scores == [None, 1]


def test_requests_of_a_clients_own_records_are_a_clients_to_ask():
    reports = [report(ordinary(requests=name)) for name in ("own", "general")]
    found = [position_of(one, one["measurements"][-1]) for one in reports]
    assert found == ["client", "public"]


@pytest.mark.parametrize("scope", [{"requests": 7}, {"requests": None}, {}])
def test_rows_of_somebody_else_are_rendered(scope):
    rows = [replace(row, scope={"source": "tuned", **scope}) for row in ordinary()[:1]]
    assert table(rows, TITLE).rows
    assert sixth(rows).status == "in part"
