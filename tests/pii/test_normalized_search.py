"""A string is found however white space and Unicode spell it, and never where it is not."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.pii.normalized_search import find_strings, normalize


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Call Ann Lee.", "Ann Lee"),
        ("Call Ann\u00a0Lee.", "Ann\u00a0Lee"),
        ("Call Ann \n\tLee.", "Ann \n\tLee"),
        ("Call Ａｎｎ\u3000Lee.", "Ａｎｎ\u3000Lee"),
        ("Annn Lee", None),
        ("AnnLee", None),
        ("Ann Lee\u0301", None),  # Leé is another name
        ("", None),
    ],
)
def test_a_name_is_found_as_it_is_spelled(text, found):
    seen = [text[start:end] for _, start, end in find_strings(["Ann Lee"], text)]
    assert seen == ([found] if found else [])


def test_an_accent_may_stand_beside_its_letter():
    assert list(find_strings(["Zo\u00eb Ng"], "By Zoe\u0308 Ng")) == [("Zo\u00eb Ng", 3, 10)]
    assert list(find_strings(["Zoe\u0308 Ng"], "By Zo\u00eb Ng")) == [("Zoe\u0308 Ng", 3, 9)]


def test_every_place_of_every_string_is_found():
    assert list(find_strings(["aa", " b "], "aaa b")) == [("aa", 0, 2), ("aa", 1, 3), (" b ", 4, 5)]
    assert list(find_strings(["", " "], "a b")) == []


def test_one_character_is_not_found_within_words():
    found = list(find_strings(["王", "J"], "国王。王 J. Jo"))
    assert found == [("王", 3, 4), ("J", 5, 6)]


TEXT = st.text("ab \u00a0\né\u0301ｂ", max_size=12)


@given(TEXT, st.text("ab \u00a0é\u0301", max_size=3))
def test_places_are_those_pieces_of_the_text_that_are_plainly_the_string(text, string):
    for _, start, end in find_strings([string], text):
        assert normalize(text[start:end]) == normalize(string) != ""
    # The obvious way: every piece of the text that begins and ends with a letter of its own.
    slow = {
        (start, end)
        for start in range(len(text))
        for end in range(start + 1, len(text) + 1)
        if normalize(text[start:end]) == normalize(string)
        and not text[start].isspace() and not text[end - 1].isspace()
        and not (start and unicodedata.combining(text[start]) and not text[start - 1].isspace())
        and not (end < len(text) and unicodedata.combining(text[end]))
        and (len(unicodedata.normalize("NFKD", string).strip()) > 1
             or not any(map(str.isalnum, text[max(0, start - 1) : start] + text[end : end + 1])))
    }  # fmt: skip
    assert {(start, end) for _, start, end in find_strings([string], text)} == slow
