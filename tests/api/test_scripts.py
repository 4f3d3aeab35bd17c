"""Which characters are Han, and in which scripts no space ends a word."""

import re
import unicodedata

import pytest

from fedaudit.api.scripts import HAN, has_han, is_spaceless, words_run_on


@pytest.mark.parametrize("character", ["\u3400", "原", "鿿", "\uf900", "𠮷", "\U00030000"])
def test_a_text_with_a_han_character(character):
    assert has_han(f"a {character}!")


@pytest.mark.parametrize("text", ["", "é1_", "한국어", "ひらがな", "。", "\ue000", "😀"])
def test_a_text_without(text):
    assert not has_han(text)


def test_they_are_the_ideographs_that_unicode_names():
    ideographs = [
        chr(code)
        for code in range(0x323B0)
        if re.match("CJK (UNIFIED|COMPATIBILITY) IDEOGRAPH", unicodedata.name(chr(code), ""))
    ]
    assert len(ideographs) > 90_000
    assert re.fullmatch(f"[{HAN}]+", "".join(ideographs))


@pytest.mark.parametrize("text", ["a 原", "ひらがな", "カナ", "ｶﾅ", "ไทย", "ລາວ", "ខ្មែរ", "မြန်မာ"])
def test_scripts_without_spaces(text):
    assert is_spaceless(text)
    assert words_run_on(text[-1])


@pytest.mark.parametrize("text", ["", "é1_", "Орлов", "。", "😀", "๑", "༄", "राम", "اسم"])
def test_scripts_with_spaces(text):
    assert not is_spaceless(text)
    assert not words_run_on(text[:1])


def test_korean_has_spaces_but_writes_particles_onto_words():
    for form in "NFC", "NFD":
        text = unicodedata.normalize(form, "김철수는")
        assert not is_spaceless(text)
        assert all(map(words_run_on, text))


def test_they_are_the_letters_and_marks_that_unicode_names():
    scripts = ("HIRAGANA", "KATAKANA", "HANGUL", "THAI", "LAO", "KHMER", "MYANMAR")
    letters = [
        char
        for char in map(chr, range(0x10000))
        if unicodedata.name(char, "").startswith(scripts)
        and unicodedata.category(char)[0] in "LM"
        and "TONE MARK" not in unicodedata.name(char)
    ]
    assert len(letters) > 12_000
    assert all(map(words_run_on, letters))
