"""Which writing a text is in, and one width for the letters and digits of East Asian typing."""

import re
import string
from collections.abc import Collection, Sequence

from fedaudit.api import HAN, has_han

ANY = "xx"
"""The language code (spaCy's) of what works on every text."""

_LATIN = re.compile("[A-Za-z]")
_LETTERS = {"zh": re.compile(f"[{HAN}]+"), "en": re.compile("[A-Za-z\u00aa-\u024f\u1e00-\u1eff]+")}
"""Runs of the letters of a language's script, for English any Latin ones, with their accents."""
_TOKEN = re.compile("[A-Za-z0-9]{2}")
_READ_CHARACTERS = 2000
"""How much of a text is looked at to tell its script."""
_UNREAD_TEXTS = 0.05
"""The share of texts in other scripts up to which a detector is said to read the texts."""

# One code point for one code point, so offsets stay true, as they would not under NFKC.
# Chinese commas and brackets stay as they are: models of Chinese know them.
_FOLDED = (
    {
        ord(character) + 0xFEE0: character
        for character in string.ascii_letters + string.digits + "@.+-_"
    }
    | {
        **dict.fromkeys((0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000), " "),
        **dict.fromkeys((0x85, 0x2028, 0x2029), "\n"),
        **dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2212"), "-"),
    }
    | dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}")
)


def fold(text: str) -> str:
    """Return `text` with full-width letters and digits, all spaces and hyphens as ASCII.

    Lone surrogates are replaced.
    """
    return text if text.isascii() else text.translate(_FOLDED)


def occurs(language: str, text: str) -> bool:
    """Tell whether `text` holds anything written as `language` is."""
    return language == ANY or (has_han(text) if language == "zh" else bool(_LATIN.search(text)))


def can_judge(language: str, text: str) -> bool:
    """Tell whether a model of `language` may judge `text`: Chinese has Han, others not."""
    return language == ANY or (language == "zh") == has_han(text)


def can_read(languages: Collection[str], texts: Sequence[str]) -> bool:
    """Tell whether one of `languages` is written like nearly all of `texts`.

    It is not if more than one text in twenty has most of its letters in other scripts.
    """
    if ANY in languages:
        return True
    unread = sum(not _is_mostly_in(languages, fold(text[:_READ_CHARACTERS])) for text in texts)
    return unread <= _UNREAD_TEXTS * len(texts)


def _is_mostly_in(languages: Collection[str], text: str) -> bool:
    """Tell whether at least half of a text's letters are of the languages' scripts."""
    letters = sum(map(str.isalpha, text))
    read = sum(
        sum(map(str.isalpha, run)) for language in languages for run in _runs(language, text)
    )
    return 2 * read >= letters


def _runs(language: str, text: str) -> list[str]:
    """Return a text's runs of the letters of a language; every other one than Chinese has Latin."""
    return _LETTERS["zh" if language == "zh" else "en"].findall(text)


def strip_span(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span without white space at its ends, which some models include."""
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())


def whole_tokens(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span with the rest of the words that it begins and ends in."""
    while start > 0 and _TOKEN.fullmatch(text[start - 1 : start + 1]):
        start -= 1
    while end < len(text) and _TOKEN.fullmatch(text[end - 1 : end + 1]):
        end += 1
    return start, end
