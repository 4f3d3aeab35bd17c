"""Numbers as people write them: spaces, hyphens, dots, line breaks, small letters; whole tokens."""

import re

import pytest
from fedaudit_plugins.detectors.names import Names
from fedaudit_plugins.detectors.presidio import Presidio


def found(text):
    [spans] = Presidio().detect([text])
    return [(text[one.start : one.end], one.label) for one in spans]


@pytest.mark.parametrize(
    "number",
    [
        "GB82 WEST 1234 5698 7654 32",
        "gb82west12345698765432",
        "GB82\u00a0WEST\u00a01234\u00a05698\u00a07654\u00a032",
        "GB82-WEST-1234-5698-7654-32",
        "GB82\u2011WEST\u20111234\u20115698\u20117654\u201132",
        "GB82\u2013WEST\u20131234\u20135698\u20137654\u201332",
        "GB82.WEST.1234.5698.7654.32",
        "GB82 WEST 1234\n5698 7654 32",
        "MT84MALT011000012345MTLCAST001S",
        "SC18SSCB11010000000000001497USD",
        "NO93 8601 1117 947",
    ],
)
def test_ibans(number):
    assert found(f"Pay to {number} and wait.") == [(number, "IBAN_CODE")]


@pytest.mark.parametrize(
    "number",
    [
        "4111 1111 1111 1111",
        "4111.1111.1111.1111",
        "4111\u20131111\u20131111\u20131111",
        "4111\u202f1111\u202f1111\u202f1111",
        "4111\u20111111\u20111111\u20111111",
        "4111 1111\n1111 1111",
        "3782 822463 10005",
        "3056.9309.0259.04",
    ],
)
def test_cards(number):
    assert found(f"Her card {number} expired.") == [(number, "BANK_CARD")]


@pytest.mark.parametrize(
    ("number", "label"),
    [
        ("JG-10-37-59-A", "ID_CARD"),
        ("JG 10 37 59 A", "ID_CARD"),
        ("JG103759A", "ID_CARD"),
        ("JG\u201310\u201337\u201359\u2013A", "ID_CARD"),
        ("110105\u201319491231\u2013002X", "ID_CARD"),
        ("536\u201390\u20134399", "US_SSN"),
    ],
)
def test_identity_numbers(number, label):
    assert found(f"No {number} shown") == [(number, label)]


@pytest.mark.parametrize(
    "text", ["2010\u20132012", "pages 1234\u20131250", "4111\u20131111\u20131111\u20131112"]
)
def test_a_range_is_no_number(text):
    assert found(f"The account of {text} ended.") == []


@pytest.mark.parametrize("last", ["X", "x", "×", "Х", "ⅹ"])
def test_identity_numbers_with_a_look_alike_at_their_end(last):
    number = f"11010519491231002{last}"
    assert found(f"No {number} shown") == [(number, "ID_CARD")]


@pytest.mark.parametrize(
    "number",
    [
        "06 12 34 56 78",
        "044 668 18 00",
        "02 99 99.12.34",
        "22 33 44 55",
        "0171 23 45 67 8",
        "030/12 34 56",
        "0612345678",
        "+33 6 12 34 56 78",
    ],
)
def test_telephone_numbers_in_groups_of_two_behind_a_word(number):
    assert found(f"Telefon: {number}, please.") == [(number, "PHONE_NUMBER")]
    assert not found(f"born 01.02.1990 and called 01.02.1990 by {'x' * 50}")


def test_a_find_leaves_no_part_of_a_token():
    assert found("4111.1111.1111.1112 is no card") == []


@pytest.mark.parametrize("detector", [Presidio(), Names()])
@pytest.mark.parametrize(
    "text",
    [
        "Mail {helga.brun\u00adner@klinik.de} now",
        "Mail {helga\u200b.brunner@klinik.de} now",
        "Mail {helga.brunner&#64;klinik.de} now",
        "Mail {helga.brunner&amp;#64;klinik.de} now",
        "Mail {helga.brunner%40klinik.de} now",
        "card {4111\u200b1111 1111 1111} used",
        "card {4111&nbsp;1111&nbsp;1111&nbsp;1111} used",
        "card {4111  1111  1111  1111} used",
        "card {4111\t1111\t1111\t1111} used",
        "IBAN {DE89  3704  0044  0532  0130  00} is",
        "IBAN {DE89\t3704\t0044\t0532\t0130\t00} is",
        "身份证{110101\u200b19900307\u200b8515}，",
        "Telefon: {030/901820}",
        "Mobile {+91 98765 43210} / {98765-43210}",
    ],
)
def test_numbers_and_addresses_are_read_as_names_are(detector, text):
    plain = text.replace("{", "").replace("}", "")
    [spans] = detector.detect([plain])
    assert [plain[s.start : s.end] for s in spans] == re.findall(r"\{(.*?)\}", text)


@pytest.mark.parametrize(
    "text",
    [
        "4111\t1111\t1111\t1111",  # four columns of a table
        "Call about invoice 2023/12345, AT&T &amp; R&D",
    ],
)
def test_numbers_of_tables_and_of_invoices_are_no_one_s(text):
    assert Presidio().detect([text]) == [()]
