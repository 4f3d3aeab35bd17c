"""What reports show of extraction without prompts."""

from dataclasses import replace

from gated_report import by_kind, recalled, report, table, unasked

from fedaudit.report.text.attacks import attack_summaries


def test_kinds_of_records_and_of_the_detector_are_lines_of_one_table():
    found = table(
        [*unasked(), *by_kind(1, detection="verbatim")], "Kinds of PII without prompts: untargeted"
    )
    assert [row[:2] for row in found.rows] == [
        ("EMAIL_ADDRESS", "3 / 4"),
        ("PERSON", "0 / 16"),
        ("URL", "-"),
    ]
    assert [row[3] for row in found.rows] == ["88", "-", "30"]


def test_attacks_are_not_mixed():
    other = [replace(row, plugin="other") for row in by_kind(1)]
    found = table([*by_kind(3), *other], "Kinds of PII without prompts: untargeted")
    assert found.rows[0][1:5:3] == ("3 / 4", "3.4 % [1.2, 9.5]")


def test_no_strings_have_no_precision_and_say_why():
    rows = recalled(0, strings=0)
    found = table(rows, "Extraction without prompts: untargeted")
    assert found.rows[0][3:] == ("0", "not measured")
    assert "Not measured: nothing" in found.notes


def test_a_precision_without_recall_is_not_lost():
    rows = [row for row in recalled(3) if row.metric == "extraction_precision"]
    assert len(table(rows, "Other measurements").rows) == 3


def test_the_story_tells_what_was_said_unasked():
    detector, search = attack_summaries(report(unasked()))
    assert detector.startswith(
        "The attack untargeted asked for nothing and drew 1,024 texts. Of the personal data in the"
        " records, the tuned model gave 3 of 52, 5.8 %"
    )
    assert detector.endswith(
        "and its base did not, 3 of 512, 0.6 % (between 0.2 % and 1.7 %) are in the records."
    )
    assert search.startswith("The attack untargeted, word for word asked for nothing")
    assert "are in the records" not in search
