"""The scripts that a text is written in, and which of them put no spaces between words."""

import re
import unicodedata

HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""All of them, for a character class."""
KANA = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
"""Hiragana and Katakana, for a character class."""
HANGUL = "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb\uffa1-\uffdc"
"""Hangul syllables, and the letters (jamo) that they are made of, for a character class."""
_SOUTH_EAST = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ebd\u0ec0-\u0ece\u0edc-\u0edf"  # Thai, Lao
    "\u1000-\u103f\u1050-\u108f\u109a-\u109d\uaa60-\uaa7f\ua9e0-\ua9ef\ua9fa-\ua9fe"  # Myanmar
    "\u1780-\u17d3\u17d7\u17dc\u17dd"  # Khmer
)
"""Letters and marks; a number in these digits has an end like any other."""
_SPACELESS = f"{HAN}{KANA}{_SOUTH_EAST}"
_HAN, _IS_SPACELESS = re.compile(f"[{HAN}]"), re.compile(f"[{_SPACELESS}]")
_WORDS_RUN_ON = re.compile(f"[{_SPACELESS}{HANGUL}]")


def has_han(text: str) -> bool:
    """Tell whether a text has a Han character."""
    return _HAN.search(text) is not None


def is_spaceless(text: str) -> bool:
    """Tell whether a text has a character of a script that puts no spaces between words.

    These are Han, Hiragana, Katakana, Thai, Lao, Khmer and Myanmar.
    """
    return _IS_SPACELESS.search(text) is not None


def words_run_on(char: str) -> bool:
    """Tell whether the next word, or a particle, may follow a character with nothing between.

    So it is in spaceless scripts, and in Korean, whose particles are written onto their words.
    """
    return _WORDS_RUN_ON.match(char) is not None


def scripts(text: str) -> frozenset[str]:
    """Return the scripts that a text has letters of, by the first word of Unicode's names."""
    letters = filter(str.isalpha, unicodedata.normalize("NFKC", text))
    return frozenset(unicodedata.name(letter, "").partition(" ")[0] for letter in letters)
