"""Texts into sentences: Punkt for alphabets, punctuation marks for Chinese."""

import re
from collections.abc import Iterator

from fedaudit.metrics.overlap.punkt import CANDIDATE, ends_sentence, english_model

Span = tuple[int, int]

HAN = r"㐀-䶿一-鿿豈-﫿\U00020000-\U0003ffff"
"""Chinese characters, for a character class."""
_HAN = re.compile(f"[{HAN}]")
_MARKS = "，。、；：！？…”’』」）》】"
_HAN_END = re.compile(
    f"(?:[。！？；…]+|(?<=[{HAN}])[!?;]+)[”’」』）》】\"')]*|(?<=[{HAN}{_MARKS}])[ \t　]*[\n\r]+"
)
_CLOSERS = re.compile(r"[\"')\]}]+?(?:\s+|(?=--)|$)", re.MULTILINE)
_SPACE = " \t\n\r\x0b\x0c"
_OTHER_SPACE = re.compile(r"[\t\n\r\x0b\x0c]")


def splitter() -> str:
    """Say what splits sentences here, for a report."""
    return (
        "Punkt English" if english_model() else "Punkt's rules, without its list of abbreviations"
    )


def has_han(text: str) -> bool:
    """Tell whether a text has a Chinese character."""
    return _HAN.search(text) is not None


def sentences(text: str, *, han: bool = False) -> list[Span]:
    """Return the (start, end) of the sentences of a text, without the white space between them.

    As NLTK 3.9 splits with its English Punkt model; with `han`, the text is cut at Chinese
    sentence marks, and at line breaks behind Chinese, before.
    """
    if not han:
        return list(_closed(text, list(_raw(text))))
    ends = [match.end() for match in _HAN_END.finditer(text)]
    parts = zip([0, *ends], [*ends, len(text)], strict=True)
    return [(at + s, at + e) for at, end in parts for s, e in _trimmed(text[at:end])]


def _trimmed(text: str) -> list[Span]:
    """Return the sentences of a part, without white space before the first one."""
    blank = len(text) - len(text.lstrip())
    return [(blank + s, blank + e) for s, e in sentences(text[blank:])]


def _raw(text: str) -> Iterator[Span]:
    """Yield what lies between the ends that Punkt accepts."""
    begin = 0
    for match, context in _contexts(text):
        if ends_sentence(context):
            yield begin, match.end()
            begin = match.start("next") if match["next"] else match.end()
    yield begin, len(text.rstrip())


def _contexts(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield every possible end with its word and what follows; of one word, its last only."""
    odd = _OTHER_SPACE.search(text) is not None
    previous: re.Match[str] | None = None
    begin = stop = 0
    for match in CANDIDATE.finditer(text):
        # A space right behind the previous candidate does not count: the original's rule.
        space = text.rfind(" ", stop + 1, match.start())
        if odd:
            space = max(text.rfind(one, stop + 1, match.start()) for one in _SPACE)
        start = space + 1 if space > stop else begin
        if previous is not None and stop <= start:
            yield previous, text[begin:stop] + previous.group() + previous["after"]
        previous, begin, stop = match, start, match.start()
    if previous is not None:
        yield previous, text[begin:stop] + previous.group() + previous["after"]


def _closed(text: str, spans: list[Span]) -> Iterator[Span]:
    """Give closing quotes and brackets that begin a sentence to the one before."""
    moved = 0
    for (start, end), following in zip(spans, [*spans[1:], None], strict=True):
        begin = start + moved
        closers = None
        if following and text[following[0] : following[0] + 1] in "\"')]}":
            closers = _CLOSERS.match(text[slice(*following)])
        moved = closers.end() if closers else 0
        if following and closers:
            yield begin, following[0] + len(closers.group().rstrip())
        elif begin < end:
            yield begin, end
