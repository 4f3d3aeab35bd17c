"""What personal data of a kind look like: learnt from known strings, to tell junk from others."""

import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby

from fedaudit.pii.checksums import is_id_card, is_luhn
from fedaudit.pii.surrogate_dates import is_date

RULES: tuple[Callable[[str], bool], ...] = (is_id_card, is_luhn, is_date)
"""Each is checked for every string of a kind if all known strings comply."""


def shape(word: str) -> str:
    """Return a word with its letters and digits as kinds: `O'Neill` is `A'Aa`, `SW1` is `A0`.

    A run of capitals is one `A`, of small letters one `a`, of others (Chinese) one `字`. One or two
    digits are `0`; of more, each is.
    """
    return "".join(_shape_of_run(kind, len(list(run))) for kind, run in groupby(word, _kind))


def _kind(char: str) -> str:
    if char.isdecimal():
        return "0"
    if not char.isalpha():
        return char
    return "A" if char.isupper() else "a" if char.islower() else "字"


def _shape_of_run(kind: str, length: int) -> str:
    if kind == "0":
        return "0" if length < 3 else "0" * length
    return kind if kind in "Aa字" else kind * length


def is_broken(text: str) -> bool:
    """Tell whether a text holds what no one writes: control characters, lone surrogates, U+FFFD."""
    return any(char == "\ufffd" or unicodedata.category(char)[0] == "C" for char in text)


@dataclass(frozen=True, slots=True)
class Form:
    """What the known strings of one kind have in common."""

    words: frozenset[str]
    """The shapes of their words; of a word in small letters among others, the word itself."""
    min_words: int
    """The fewest words that one of them has."""
    max_words: int
    rules: tuple[Callable[[str], bool], ...]
    """Checks that all of them pass."""

    def matches(self, text: str) -> bool:
        """Tell whether `text` has no word of another shape, and as many words as some have."""
        if is_broken(text) or not self.min_words <= len(text.split()) <= self.max_words:
            return False
        return self.words.issuperset(_words(text)) and all(rule(text) for rule in self.rules)


def form(strings: Iterable[str]) -> Form | None:
    """Return the form of known strings of one kind, in any order; None without strings."""
    samples = sorted({string.strip() for string in strings} - {""})
    if not samples:
        return None
    counts = [len(string.split()) for string in samples]
    return Form(
        words=frozenset(word for string in samples for word in _words(string)),
        min_words=min(counts),
        max_words=max(counts),
        rules=tuple(rule for rule in RULES if all(map(rule, samples))),
    )


def _words(text: str) -> list[str]:
    words = text.split()
    small = len(words) > 1
    return [word if small and word.isalpha() and word.islower() else shape(word) for word in words]
