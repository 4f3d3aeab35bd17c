"""Splitting texts into sentences: by Punkt, and for Chinese by punctuation marks."""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

from fedaudit.api.scripts import HAN

Span = tuple[int, int]

SPLITTER = "Punkt English"
"""The name of the sentence splitter, for a report."""

_CANDIDATE = re.compile(r"[.?!](?=(?P<after>[)\";}\]*:@'({\[?!]|\s+(?P<next>\S+)))")
"""A possible end: followed by closing punctuation, or by white space and a word."""
_POSSIBLE = re.compile(r"[.?!](?=[)\";}\]*:@'({\[?!]|\s+\S)")
"""The same without groups, which is faster."""
_PLAIN = re.compile(r"([A-Za-z][a-z]+)(?:\.|([?!]))")

_MARKS = "，。、；：！？…”’』」）》】"
_HAN_END = re.compile(
    f"(?:[。！？；…]+|(?<=[{HAN}])[!?;]+)[”’」』）》】\"')]*|(?<=[{HAN}{_MARKS}])[ \t　]*[\n\r]+"
)
_CLOSERS = re.compile(r"[\"')\]}]+?(?:\s+|(?=--)|$)", re.MULTILINE)
_CLOSING = frozenset("\"')]}")
_SPACES = str.maketrans("\t\n\r\x0b\x0c", "     ")
_OTHER_SPACE = re.compile(r"[\t\n\r\x0b\x0c]")


@cache
def punkt() -> Any:
    """Return NLTK's splitter with its English model, and with the closing marks of NLTK 3.9."""
    from nltk.tokenize.punkt import PunktLanguageVars, PunktParameters, PunktSentenceTokenizer
    from punkt.data import english

    # mypy refuses a subclass of an untyped class.
    marks = type(
        "Marks", (PunktLanguageVars,), {"_re_non_word_chars": r"(?:[)\";}\]\*:@\'\({\[?!])"}
    )
    model = PunktParameters()
    model.abbrev_types = set(english.ABBREV_TYPES)
    model.collocations = set(english.COLLOCATIONS)
    model.sent_starters = set(english.SENT_STARTERS)
    model.ortho_context.update(english.ORTHO_CONTEXT)
    return PunktSentenceTokenizer(model, lang_vars=marks())


@cache
def _unsure_words() -> frozenset[str]:
    """Return the words behind which a full stop may end no sentence."""
    from punkt.data import english

    return frozenset(english.ABBREV_TYPES) | {first for first, _ in english.COLLOCATIONS}


@lru_cache(maxsize=1 << 14)
def ends_plainly(word: str) -> bool:
    """Tell whether a word ends a sentence, whatever follows it except a full stop.

    That holds for words of plain letters that end in "?" or "!", and for those that end in "." and
    are neither a known abbreviation nor the first word of a collocation.
    """
    plain = _PLAIN.fullmatch(word)
    return plain is not None and (bool(plain[2]) or plain[1].lower() not in _unsure_words())


@lru_cache(maxsize=1 << 14)
def ends_sentence(context: str) -> bool:
    """Tell whether the candidate in "word." + what follows ends a sentence."""
    return bool(punkt().text_contains_sentbreak(context))


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
        match = _CANDIDATE.match(text, stop)
        if match and ends_sentence(text[word:stop] + match.group() + match["after"]):
            spans.append((begin, match.end()))
            begin = match.start("next") if match["next"] else match.end()
    spans.append((begin, len(text.rstrip())))
    return spans


def _candidates(text: str) -> list[Span]:
    """Return the start of each word with a possible sentence end, and its last such end."""
    spaced = text.translate(_SPACES) if _OTHER_SPACE.search(text) else text
    word, stop, candidates = 0, 0, list[Span]()
    for match in _POSSIBLE.finditer(text):
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
