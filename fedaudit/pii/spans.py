"""One annotation out of many finds: spans in order, none over another."""

from bisect import bisect_left
from collections.abc import Iterable

from fedaudit.api.records import PiiSpan
from fedaudit.api.scripts import has_han


def cuts_word(text: str, position: int) -> bool:
    """Tell whether a position lies inside a word; Chinese characters are words of their own."""
    around = text[position - 1 : position + 1] if 0 < position < len(text) else ""
    return len(around) == 2 and around[0].isalnum() and around[1].isalnum() and not has_han(around)


def resolve(finds: Iterable[tuple[float, PiiSpan]]) -> tuple[PiiSpan, ...]:
    """Return the spans of the best (score, span) finds, sorted and without overlap.

    Of two that overlap the higher score stays, then the longer, the earlier, the label that
    sorts first: the result does not depend on the order of `finds`.
    """
    ranked = sorted(set(finds), key=lambda find: (-find[0], find[1].start - find[1].end, find[1]))
    spans: list[PiiSpan] = []
    for _, span in ranked:
        index = bisect_left(spans, span)
        free_left = index == 0 or spans[index - 1].end <= span.start
        free_right = index == len(spans) or span.end <= spans[index].start
        if free_left and free_right:
            spans.insert(index, span)
    return tuple(spans)
