"""Patterns of the user's own are kinds of personal data, with their check, from files too."""

import pytest
from fedaudit_plugins.detectors.custom import CHECKS
from fedaudit_plugins.detectors.names import Names

from fedaudit.api import InputError, UsageError


def found(text, *patterns, **options):
    detector = Names(patterns=patterns, **options)
    [spans] = detector.detect([text])
    return [(text[one.start : one.end], one.label) for one in spans]


def test_patterns_are_found_in_the_texts_and_are_labels():
    text = "File 77-K of Mr Quist, insured as AB 1234."
    patterns = ("CASE_NUMBER=\\b\\d{2}-[A-Z]\\b", "INSURANCE_NUMBER=insured as (AB \\d{4})")
    assert found(text, *patterns) == [
        ("77-K", "CASE_NUMBER"),
        ("Quist", "PERSON"),
        ("AB 1234", "INSURANCE_NUMBER"),
    ]
    assert found(text, *patterns, entities=("PERSON",))[0] == ("77-K", "CASE_NUMBER")
    detector = Names(patterns=patterns)
    assert {"CASE_NUMBER", "INSURANCE_NUMBER"} <= detector.labels([text])
    assert "patterns CASE_NUMBER, INSURANCE_NUMBER" in detector.describe()


def test_a_check_drops_what_it_refuses_and_a_file_holds_patterns(tmp_path):
    path = tmp_path / "patterns.txt"
    path.write_text("# of the NHS\nNHS_NUMBER:mod11=\\d{3} \\d{3} \\d{4}\n")
    assert found("943 476 5919 and 943 476 5918", f"@{path}", entities=("PERSON",)) == [
        ("943 476 5919", "NHS_NUMBER")
    ]
    with pytest.raises(InputError, match="cannot be read"):
        Names(patterns=(f"@{tmp_path / 'none'}",))


@pytest.mark.parametrize(
    ("check", "number"),
    [
        ("luhn", "79927398713"),
        ("mod97", "GB82WEST12345698765432"),
        ("mod11", "9434765919"),
        ("verhoeff", "2363"),
        ("date", "19700131"),
    ],
)
def test_checks_hold_for_published_examples_and_fail_for_others(check, number):
    assert CHECKS[check](number)
    assert not CHECKS[check](number[:-1] + ("9" if number[-1] != "9" else "1"))


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("x", "NAME=REGEX"),
        ("A=(", "not a regular expression"),
        ("A:crc=x", "check"),
        ("a b=x", "NAME"),
    ],
)
def test_what_is_no_pattern_is_refused(pattern, message):
    with pytest.raises(UsageError, match=message):
        Names(patterns=(pattern,))
