import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.pii.shape import form, is_broken, shape

NAMES = ["Ann Lee", "Sue O'Neill", "Karl van Dyke"]


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("O'Neill", "A'Aa"),
        ("McDonald", "AaAa"),
        ("SW1", "A0"),
        ("12", "0"),
        ("1999", "0000"),
        ("7b@x.org", "0a@a.a"),
        ("王芳", "字"),
        ("", ""),
    ],
)
def test_a_word_has_a_shape(word, wanted):
    assert shape(word) == wanted


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("Bo Day", True),
        ("Bo van Day", True),
        ("Bo was Day", False),  # a small word of no known name
        ("Bo", False),
        ("Bo Day Van Dam", False),  # four words
        ("oung Day", False),
        ("Bo D4y", False),
        ("Bo D\ufffdy", False),
        ("Bo 王", False),
    ],
)
def test_names_are_of_the_form_of_known_names(text, fits):
    assert form(NAMES).matches(text) == fits


def test_what_all_known_strings_pass_is_asked_of_others():
    cards = form(["4111111111111111", "5500000000000004"])  # both hold the Luhn digit
    assert cards.matches("4012888888881881")
    assert not cards.matches("4012888888881882")
    assert form(["4111111111111111", "4111111111111112"]).matches("4012888888881882")
    days = form(["3 May 1961", "28 June 1999"])
    assert days.matches("9 July 1959")
    assert not days.matches("31 February 1963")
    assert not days.matches("9 Brett 1959")


def test_nothing_known_has_no_form():
    assert form([]) is None
    assert form([" "]) is None


@pytest.mark.parametrize("text", ["a\ufffd", "a\x00", "a\u200b", "a\x9b"])
def test_broken_bytes(text):
    assert is_broken(text)
    assert not is_broken("Zoë 王")


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=6), st.integers(0, 9))
def test_every_known_string_that_is_not_broken_fits(strings, seed):
    made = form(strings)
    assert made == form(random.Random(seed).sample(strings, len(strings)))
    for string in strings:
        if string.strip() and not is_broken(string):
            assert made.matches(string.strip())
