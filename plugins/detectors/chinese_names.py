"""Names of people in Chinese characters: after a person's role, or before a form of address.

Found without a model: a surname and one or two characters more, where a word before or after says
that it is a person. A name that was found counts wherever else it stands in the text.
"""

import re
from collections.abc import Iterator
from functools import cache

from fedaudit.api import HAN

from .latin_names import LISTED, TITLED, FoundName
from .name_lists import name_lists
from .name_words import BEFORE_NAMES, BEHIND_NAMES, NO_GIVEN_NAME

_GIVEN = f"[{HAN}]"


def chinese_names(text: str) -> Iterator[FoundName]:
    """Yield the names of people in a text, in no order; none overlaps another."""
    before, behind = _patterns()
    spans = dict[tuple[int, int], float]()
    names = dict[str, float]()
    for match in behind.finditer(text):
        _add(spans, names, text, *match.span("name"), TITLED)
    for match in before.finditer(text):
        start, end = match.span("name")
        while end - start > 2 and text[end - 1] in NO_GIVEN_NAME:
            end -= 1
        if text[end - 1] not in NO_GIVEN_NAME:
            _add(spans, names, text, start, end, LISTED)
    for name, score in names.items():
        for again in re.finditer(re.escape(name), text):
            _add(spans, {}, text, *again.span(), score)
    yield from (FoundName(start, end, score) for (start, end), score in spans.items())


def _add(
    spans: dict[tuple[int, int], float],
    names: dict[str, float],
    text: str,
    start: int,
    end: int,
    score: float,
) -> None:
    """Add a name unless it overlaps one that was added before."""
    if not any(start < other_end and other_start < end for other_start, other_end in spans):
        spans[start, end] = score
        names.setdefault(text[start:end], score)


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a name after a person's role, and before a form of address."""
    surnames = "|".join(sorted(name_lists().han, key=lambda name: (-len(name), name)))
    before = (
        rf"(?:{'|'.join(BEFORE_NAMES)})(?:[:：]|为|叫)?\s*(?P<name>(?:{surnames}){_GIVEN}{{1,2}})"
    )
    behind = rf"(?P<name>(?:{surnames}){_GIVEN}{{0,2}}?)(?:{'|'.join(BEHIND_NAMES)})"
    return re.compile(before), re.compile(behind)
