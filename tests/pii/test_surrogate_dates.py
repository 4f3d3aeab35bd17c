"""Invented dates are written as given ones are, and nothing of what is no date comes through."""

import random
import re
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.pii.surrogate_dates import date_like, is_date

SEEDS = range(40)
FORMS = [
    ("1996-02-29", r"\d{4}-\d\d-\d\d"),
    ("03/04/99", r"\d\d/\d\d/\d\d"),
    ("3/4/1999", r"\d{1,2}/\d{1,2}/\d{4}"),
    ("12.11.75", r"\d\d\.\d\d\.\d\d"),
    ("85-12-05", r"\d\d-\d\d-\d\d"),
    ("December 5, '85", r"[A-Z][a-z]+ \d{1,2}, '\d\d"),
    ("3 May 04", r"\d{1,2} [A-Z][a-z]+ \d\d"),
    ("05 May 1980", r"\d\d [A-Z][a-z]+ \d{4}"),
    ("3 Sept. 1980", r"\d{1,2} [A-Z][a-z]{2}\. \d{4}"),
    ("3RD OF MAY 1980", r"\d{1,2}(ST|ND|RD|TH) OF [A-Z]+ \d{4}"),
    ("the 3rd of May", r"the \d{1,2}(st|nd|rd|th) of [A-Z][a-z]+"),
    ("1980年05月03日", r"\d{4}年\d\d月\d\d日"),
    ("80年5月3日", r"\d\d年\d{1,2}月\d{1,2}日"),
    ("1980 年 5 月", r"\d{4} 年 \d{1,2} 月"),
    ("1996", r"\d{4}"),
]


@pytest.mark.parametrize(("string", "form"), FORMS)
def test_the_form_stays(string, form):
    made = {date_like(string, random.Random(seed)) for seed in SEEDS}
    assert all(re.fullmatch(form, new) for new in made), made
    assert len(made) > 5


@pytest.mark.parametrize("string", ["12.11.75", "03/04/99", "12/11/1999"])
def test_a_part_is_below_13_wherever_it_may_be_a_month(string):
    for seed in SEEDS:
        new = date_like(string, random.Random(seed))
        assert all(1 <= int(part) <= 12 for part in re.split("[./]", new)[:2])


def test_two_digits_of_a_year_are_those_of_a_year_between_1940_and_2004():
    years = {int(date_like("12.11.75", random.Random(seed))[-2:]) for seed in range(400)}
    assert years == {year % 100 for year in range(1940, 2005)}


@pytest.mark.parametrize(
    "string",
    ["fifth of March 1980", "3 May 1980 in Bath", "born 1980", "of the", "年月日", "", "10:30",
     "１９８０年", "一九八〇年", "198", "3 Mayor 1980", "Monday 3 May 1980", "year 2003"],
)  # fmt: skip
def test_what_is_more_or_less_than_a_date_is_not_changed_in_part(string):
    assert date_like(string, random.Random(1)) is None


WRITTEN = ["%Y-%m-%d", "%Y%m%d", "%d/%m/%Y", "%d.%m.%y", "%d %B %Y", "%b %d, %Y", "%Y年%m月%d日"]


@given(st.dates(date(1940, 1, 1), date(2004, 12, 31)), st.sampled_from(WRITTEN), st.integers(0))
def test_any_date_becomes_one_of_the_same_form(old, form, seed):
    from datetime import datetime

    written = old.strftime(form)
    new = date_like(written, random.Random(seed))
    # May is short and long at once, and taken for long.
    assert datetime.strptime(new, form.replace("%b", "%B") if old.month == 5 else form)
    if form in WRITTEN[:4]:
        assert re.sub(r"\d", "0", new) == re.sub(r"\d", "0", written)


@pytest.mark.parametrize(
    ("string", "wanted"),
    [
        ("9 July 1959", True),
        ("29 February 2000", True),
        ("29 February 1999", False),
        ("31 April", False),
        ("31/12/99", True),
        ("13/13/1999", False),
        ("1959-07-09", True),
        ("2000年2月30日", False),
        ("20000229", True),
        ("20000231", False),
        ("1959", True),
        ("99 May 1999", False),
        ("9 Brett 1959", False),
        ("", False),
    ],
)
def test_a_date_stands_in_the_calendar(string, wanted):
    assert is_date(string) == wanted


@given(st.dates(date(1000, 1, 1), date(9999, 12, 31)))
def test_every_day_is_a_date(some):
    assert is_date(some.isoformat())
    assert is_date(f"{some.day} {some:%B} {some.year}")
    assert is_date(f"{some:%Y%m%d}")
