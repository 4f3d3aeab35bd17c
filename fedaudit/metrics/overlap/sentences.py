"""Splitting texts into sentences: by Punkt, and for Chinese by punctuation marks."""

import re
from collections.abc import Iterator

from fedaudit.api.scripts import HAN
from fedaudit.metrics.overlap.punkt import (
    CANDIDATE,
    POSSIBLE,
    ends_plainly,
    ends_sentence,
    english_model,
)

Span = tuple[int, int]

_MARKS = "，。、；：！？…”’』」）》】"
_HAN_END = re.compile(
    f"(?:[。！？；…]+|(?<=[{HAN}])[!?;]+)[”’」』）》】\"')]*|(?<=[{HAN}{_MARKS}])[ \t　]*[\n\r]+"
)
_CLOSERS = re.compile(r"[\"')\]}]+?(?:\s+|(?=--)|$)", re.MULTILINE)
_CLOSING = frozenset("\"')]}")
_SPACES = str.maketrans("\t\n\r\x0b\x0c", "     ")
_OTHER_SPACE = re.compile(r"[\t\n\r\x0b\x0c]")


def splitter() -> str:
    """Return the name of the sentence splitter, for a report."""
    return (
        "Punkt English" if english_model() else "Punkt's rules, without its list of abbreviations"
    )


def sentences(text: str, *, han: bool = False) -> list[Span]:
    """Return the (start, end) of the sentences of a text, without the white space between them.

    Sentences are those of NLTK 3.9 with its English Punkt model. With `han`, the text is first cut
    at Chinese sentence marks, and at line breaks after Chinese.
    """
    if not han:
        spans = _raw(text)
        if _CLOSING.isdisjoint([text[start : start + 1] for start, _ in spans]):
            return [(start, end) for start, end in spans if start < end]
        return list(_move_closers(text, spans))
    cuts = [match.end() for match in _HAN_END.finditer(text)]
    pieces = zip([0, *cuts], [*cuts, len(text)], strict=True)
    return [
        (start + s, start + e) for start, end in pieces for s, e in _trimmed_spans(text[start:end])
    ]


def _trimmed_spans(text: str) -> list[Span]:
    """Return the sentences of a piece, without white space before the first one."""
    blank = len(text) - len(text.lstrip())
    return [(blank + s, blank + e) for s, e in sentences(text[blank:])]


def _raw(text: str) -> list[Span]:
    """Return the spans between the sentence ends that Punkt accepts."""
    begin, spans = 0, list[Span]()
    for word, stop in _candidates(text):
        after = stop + 1
        while text[after].isspace():
            after += 1
        if after > stop + 1 and text[after] != "." and ends_plainly(text[word : stop + 1]):
            spans.append((begin, stop + 1))
            begin = after
            continue
        match = CANDIDATE.match(text, stop)
        if match and ends_sentence(text[word:stop] + match.group() + match["after"]):
            spans.append((begin, match.end()))
            begin = match.start("next") if match["next"] else match.end()
    spans.append((begin, len(text.rstrip())))
    return spans


def _candidates(text: str) -> list[Span]:
    """Return the start of each word with a possible sentence end, and its last such end."""
    spaced = text.translate(_SPACES) if _OTHER_SPACE.search(text) else text
    word, stop, candidates = 0, 0, list[Span]()
    for match in POSSIBLE.finditer(text):
        mark = match.start()
        # As in the original, a space right after the previous candidate does not count.
        space = spaced.rfind(" ", stop + 1, mark)
        start = space + 1 if space > stop else word
        if stop > start and candidates:
            candidates[-1] = (start, mark)
        else:
            candidates.append((start, mark))
        word, stop = start, mark
    return candidates


def _move_closers(text: str, spans: list[Span]) -> Iterator[Span]:
    """Yield the spans, with closing quotes and brackets moved to the end of the sentence before."""
    moved = 0
    for (start, end), following in zip(spans, [*spans[1:], None], strict=True):
        begin = start + moved
        closers = None
        if following and text[following[0] : following[0] + 1] in _CLOSING:
            closers = _CLOSERS.match(text[slice(*following)])
        moved = closers.end() if closers else 0
        if following and closers:
            yield begin, following[0] + len(closers.group().rstrip())
        elif begin < end:
            yield begin, end
