"""Matching answers with the strings looked for, and reducing answers to those strings.

An answer gives a string literally, as papers count it, if it begins with exactly these characters.
It gives a string strictly if a word ends after the string; case, white space and Unicode forms then
do not matter.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import blake2b

from fedaudit.api.scripts import words_run_on
from fedaudit.extraction.leads import Leads, strip_leads
from fedaudit.metrics.extraction import Matcher
from fedaudit.pii.normalized_search import fold

Hits = list[int]
"""Flat list with (draw, literal string, strict string) of every answer to a query that gives one;
strings are numbered from 1, and 0 means none."""

SEPARATOR = "\x00"
"""Separates the string that an answer gives literally from the one that it gives strictly."""

RULE = "words run on in Korean, kana, Thai, Lao, Khmer and Myanmar"
"""The latest change of the rule for matching. It is part of `digest`, so that answers reduced by
another rule are not reused."""


class StrictMatcher:
    """Finds the targets that an output begins with as whole words, in whatever spelling."""

    def __init__(self, targets: Iterable[str]) -> None:
        self._spelt: dict[str, list[str]] = {}
        for target in sorted(set(targets)):
            self._spelt.setdefault(fold(target), []).append(target)
        self._matcher = Matcher(filter(None, self._spelt))

    def hits(self, output: str) -> Iterator[str]:
        """Yield every target that `output` begins with, the shortest first."""
        text = fold(output)
        for hit in self._matcher.hits(text):
            if ends_word(text, len(hit)):
                yield from self._spelt[hit]


def ends_word(text: str, position: int) -> bool:
    """Tell whether `position` of a folded text is not inside a word.

    In scripts without spaces a word may end anywhere but within a letter or a syllable.
    """
    before, after = text[position - 1 : position], text[position : position + 1]
    return not (_goes_on(after) or (_in_word(before) and _in_word(after)))


def _in_word(char: str) -> bool:
    """Tell whether a character is part of a word in a script that separates words."""
    return bool(char) and not words_run_on(char) and unicodedata.category(char)[0] in "LMN"


def _goes_on(char: str) -> bool:
    """Tell whether a character changes the letter or syllable before it, as an accent does."""
    if _SYLLABLE_PART.match(char):
        return True
    is_mark = bool(char) and unicodedata.category(char)[0] == "M"
    return is_mark and not _VARIATION.match(char)


_SYLLABLE_PART = re.compile("[\u1160-\u11ff\ud7b0-\ud7fb\u30fc]")
"""Non-initial letters of Hangul syllables, and the mark of a long vowel in Japanese."""
_VARIATION = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Variation selectors: marks that choose how a character is drawn."""


class TargetMatcher:
    """Reduces an answer to the longest of the given strings that it gives, or else to "".

    Every other string that the answer gives is a beginning of the longest one, so the reduced
    answer holds the same strings. The disk holds the number of a string, not its text.
    """

    def __init__(self, strings: Iterable[str]) -> None:
        self.strings = sorted(set(strings))
        self._places = {string: index for index, string in enumerate(self.strings, 1)} | {"": 0}
        self._matcher, self._strict = Matcher(self.strings), StrictMatcher(self.strings)

    @cached_property
    def digest(self) -> str:
        """Return a hash of the strings and of the rule for matching them."""
        joined = "\x00".join((RULE, *self.strings)).encode("utf-8", "surrogatepass")
        return blake2b(joined, digest_size=16).hexdigest()

    def reduce(self, text: str, leads: Leads = ()) -> str:
        """Return the longest string that `text` begins with and the longest that it gives strictly.

        If the two differ, SEPARATOR stands between them. White space at the start of `text` is
        ignored; if no string is found then, one of `leads` is dropped as well.
        """
        return next(filter(None, map(self._reduce, strip_leads(text, leads))), "")

    def _reduce(self, text: str) -> str:
        literal = max(self._matcher.hits(text), key=len, default="")
        # Of strings that differ only in case, the one spelt as in the answer.
        strict = max(
            self._strict.hits(text), key=lambda s: (len(fold(s)), s == literal, s), default=""
        )
        return literal if literal == strict else f"{literal}{SEPARATOR}{strict}"

    def pack(self, texts: Sequence[str]) -> Hits:
        """Return the reduced answers to a query as numbers; empty answers take no room."""
        return [
            number
            for draw, text in enumerate(texts)
            if text
            for number in (draw, *(self._places[part] for part in split_reduced(text)))
        ]

    def unpack(self, hits: Hits, samples: int) -> list[str]:
        """Return packed answers as `samples` texts; raises ValueError if they are malformed."""
        if not isinstance(hits, list) or len(hits) % 3 or {type(x) for x in hits} - {int}:
            raise ValueError("expected a flat list of 3-tuples of numbers")
        texts = [""] * samples
        for draw, *places in zip(*(hits[i::3] for i in range(3)), strict=True):
            if not 0 <= draw < samples or not all(0 <= i <= len(self.strings) for i in places):
                raise ValueError("a number is out of range")
            literal, strict = (self.strings[index - 1] if index else "" for index in places)
            texts[draw] = literal if literal == strict else f"{literal}{SEPARATOR}{strict}"
        return texts


def whole_answers(texts: object, samples: int) -> list[str]:
    """Return the answers to a query, `samples` texts; raises ValueError if they are malformed."""
    if not isinstance(texts, list) or len(texts) != samples:
        raise ValueError("a query does not have as many answers as samples")
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("an answer is not a string")
    return texts


def split_reduced(text: str) -> tuple[str, str]:
    """Return the strings that a reduced answer gives literally and strictly."""
    literal, separator, strict = text.partition(SEPARATOR)
    return literal, strict if separator else literal
