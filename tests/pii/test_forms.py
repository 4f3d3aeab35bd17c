"""What keeps the form of a string keeps nothing else of it, letters least of all."""

import random
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedaudit.pii.masking import MAKERS, OTHER_MAKERS, surrogate_like
from fedaudit.pii.taxonomy import category, taxonomy

LABELS = sorted(
    {c.labels[0] for c in taxonomy().categories} | {*OTHER_MAKERS, "CASE_NUMBER", "MISC"}
)
WHOLE = {"Address", "Occupation", "Work Place", "E-mail Address", "Online Identifier"}
FORMED = [
    label for label in LABELS
    if getattr(category(label), "name", "") not in WHOLE and label not in ("ORGANIZATION", "URL")
]  # fmt: skip

# The words that belong to a form: of dates, of ages, of extensions; and titles of people.
MONTHS = {"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "sept", "oct", "nov",
          "dec", "january", "february", "march", "april", "june", "july", "august", "september",
          "october", "november", "december", "st", "nd", "rd", "th", "of", "the"}  # fmt: skip
AGES = {"age", "aged", "of", "old", "year", "years", "yr", "yrs", "yo", "时年", "年龄", "周岁"}
TITLES = {"mr", "mrs", "ms", "miss", "dr", "prof", "sir", "lady", "judge"}
PLAIN = {"Birthday": MONTHS, "Age": AGES, "Personal Phone Number": {"ext"}, "Name": TITLES}


def runs(text):
    """Return the runs of two and more letters of any script."""
    found, run = set(), ""
    for char in text.casefold() + " ":
        if char.isalpha():
            run += char
        else:
            found |= {run} if len(run) > 1 else set()
            run = ""
    return found


def of_the_form(string, label):
    """Return the words that may stay."""
    name = getattr(category(label), "name", "Birthday" if label == "DATE_TIME" else "")
    country = re.match("[A-Z]{2}(?=[0-9]{2})", string) if name == "Financial Account" else None
    return PLAIN.get(name, set()) | ({country[0].casefold()} if country else set())


PIECES = st.lists(
    st.one_of(
        st.sampled_from(sorted(MONTHS | AGES | TITLES)),
        st.sampled_from(["Ann", "Lee", "Ёлкин", "艾滋病", "盗窃罪", "forty", "ask for", "GB29"]),
        st.text("0123456789", min_size=1, max_size=8),
        st.sampled_from(["+44", "岁", "年", "月", "日", "4111 1111 1111 1111", "'", "２０"]),
        st.text(max_size=4),
    ),
    min_size=1, max_size=6,
)  # fmt: skip


@given(PIECES, st.sampled_from(["", " ", ", ", "-"]), st.sampled_from(FORMED), st.integers(0, 99))
@example(["被告人", "2015", "年因盗窃罪被判处", "3", "年。"], "", "CRIMINAL_RECORD", 0)
@example(["Ёлкин Пётр 4510 123456"], "", "PASSPORT", 0)
@example(["+44 20 7946 0958", "ask for Ann Lee"], " ", "PHONE_NUMBER", 0)
@example(["forty-five years and", "3", "months"], " ", "AGE", 0)
@example(["fifth of March 1980"], "", "BIRTHDAY", 0)
def test_no_letters_come_through_but_those_of_the_form(pieces, joint, label, seed):
    string = joint.join(pieces).strip()
    new = surrogate_like(string, label, random.Random(seed))
    assert not (runs(string) - of_the_form(string, label)) & runs(new or ""), new


LEAKS = [
    ("被告人2015年因盗窃罪被判处3年。", "CRIMINAL_RECORD"),
    ("2003年确诊艾滋病", "DIAGNOSIS"),
    ("Ёлкин Пётр 4510 123456", "PASSPORT"),
    ("+44 20 7946 0958 ask for Ann Lee", "PHONE_NUMBER"),
    ("forty-five years and 3 months", "AGE"),
    ("fifth of March 1980", "BIRTHDAY"),
    ("born on 3 May 1980 in Bath", "DATE_TIME"),
    ("35,000 pounds a year", "SALARY"),
    ("１３８１２３４５６７８", "PHONE_NUMBER"),
    ("京A12345", "LICENSE_PLATE"),
    ("4111 1111 1111 1111 于张三", "BANK_CARD"),
    ("LE33 of 李雷", "IBAN_CODE"),
    ("room 7", "MISC"),
]


@pytest.mark.parametrize(("string", "label"), LEAKS)
def test_what_does_not_match_the_form_is_not_changed_in_part(string, label):
    assert surrogate_like(string, label, random.Random(1)) is None


@pytest.mark.parametrize(
    ("string", "label", "form"),
    [
        ("4510 123456", "PASSPORT", r"\d{4} \d{6}"),
        ("AB-12/x", "CASE_NUMBER", r"[A-Z]{2}-\d\d/[a-z]"),
        ("12-3", "case number", r"\d\d-\d"),
        ("7ABC123", "LICENSE_PLATE", r"\d[A-Z]{3}\d{3}"),
        ("(020) 7946-0958 ext. 12", "PHONE", r"\(0\d\d\) \d{4}-\d{4} ext\. \d\d"),
        ("34", "AGE", r"\d\d"),
        ("aged 34", "AGE", r"aged \d\d"),
        ("34-year-old", "AGE", r"\d\d-year-old"),
        ("34 years of age", "AGE", r"\d\d years of age"),
        ("时年34周岁", "AGE", r"时年\d\d周岁"),
    ],
)
def test_whole_forms_stay(string, label, form):
    for seed in range(30):
        assert re.fullmatch(form, surrogate_like(string, label, random.Random(seed)))


@pytest.mark.parametrize(
    ("one", "other", "label"),
    [("4510 123456", "1000 000000", "PASSPORT"), ("020 7946 0958", "020 0000 0000", "PHONE"),
     ("A 123456 C", "X 000000 Z", "ID_CARD"), ("12-3", "90-0", "CASE_NUMBER")],
)  # fmt: skip
def test_what_is_drawn_tells_nothing_of_the_digits_and_letters_it_replaces(one, other, label):
    for seed in range(30):
        assert surrogate_like(one, label, random.Random(seed)) == surrogate_like(
            other, label, random.Random(seed)
        )


def test_every_digit_but_the_first_may_be_any():
    made = [surrogate_like("111111", "PASSPORT", random.Random(seed)) for seed in range(300)]
    assert {new[0] for new in made} == set("123456789")
    for place in range(1, 6):
        assert {new[place] for new in made} == set("0123456789")


@pytest.mark.parametrize("number", ["42", "18", "0000", "79927398713"])
def test_short_numbers_that_pass_luhn_by_chance_are_numbers(number):
    for seed in range(30):
        assert re.fullmatch(
            rf"[1-9]\d{{{len(number) - 1}}}",
            surrogate_like(number, "BANK_CARD", random.Random(seed)),
        )


@pytest.mark.parametrize("label", ["PERSON", "ALIAS"])
def test_no_part_of_a_name_is_its_own_pseudonym(label, monkeypatch):
    from fedaudit.pii import masking

    drawn = iter(["Joan Lee", "Ann Hughes", "Joan Hughes", "LEE Joan"])
    monkeypatch.setattr(masking, "_name", lambda old, rng: next(drawn))
    assert surrogate_like("Mr Ann Lee", label, random.Random(1)) == "Mr Joan Hughes"


def test_the_categories_that_are_numbers_are_of_the_taxonomy():
    assert set(MAKERS) <= {one.name for one in taxonomy().categories}
