"""Which characters are Han."""

import re
import unicodedata

import pytest

from fedaudit.api.han import HAN, has_han


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
