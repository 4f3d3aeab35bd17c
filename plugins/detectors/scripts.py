"""Which writing a text is in, and one width for the letters and digits of East Asian typing."""

import re
import string

from fedaudit.api import has_han

ANY = "xx"
"""The language code (spaCy's) of what works on every text."""

_LATIN = re.compile("[A-Za-z]")

# One code point for one code point, so offsets stay true, as they would not under NFKC.
# Chinese commas and brackets stay as they are: models of Chinese know them.
_FOLDED = {
    ord(character) + 0xFEE0: character
    for character in string.ascii_letters + string.digits + "@.+-_"
} | dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}")


def fold(text: str) -> str:
    """Return `text` with full-width letters and digits as ASCII and lone surrogates replaced."""
    return text if text.isascii() else text.translate(_FOLDED)


def occurs(language: str, text: str) -> bool:
    """Tell whether `text` holds anything written as `language` is."""
    return language == ANY or (has_han(text) if language == "zh" else bool(_LATIN.search(text)))


def can_judge(language: str, text: str) -> bool:
    """Tell whether a model of `language` may judge `text`: Chinese has Han, others not."""
    return language == ANY or (language == "zh") == has_han(text)


def strip_span(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span without white space at its ends, which some models include."""
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())
