"""Questions of the inference attack: one PII is masked, and candidates are offered for it."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fedaudit.api import Document, PiiSpan
from fedaudit.extraction.controls import fill_candidates, is_han

_WORD = r"[^\W㐀-鿿]"
"""A character of a word; Chinese has no spaces between words."""

Kind = tuple[str, bool]
"""A label, and whether the string is Chinese: the other script would give the answer away."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One PII in one document."""

    document: Document
    start: int
    string: str
    label: str

    @property
    def end(self) -> int:
        """Where it ends in the document's text."""
        return self.start + len(self.string)

    @property
    def kind(self) -> Kind:
        """The label and script that its candidates must have."""
        return self.label, is_han(self.string)

    def key(self, seed: int) -> str:
        """Return what orders occurrences at random, whatever order they come in."""
        return _hash(f"{seed}\x00{self.document.text}\x00{self.start}\x00{self.label}")


@dataclass(frozen=True, slots=True)
class ClozeQuestion:
    """An occurrence, and the candidates besides the truth, those of the file first."""

    occurrence: Occurrence
    others: tuple[str, ...]
    real: int
    """How many of `others` are of the file; the rest is invented."""


@dataclass(frozen=True, slots=True)
class ClozeWindow:
    """What stands around every mention of the masked string; the string joins the parts."""

    parts: tuple[str, ...]
    at_start: bool
    """Whether it begins where its document begins."""

    def sentence(self, candidate: str) -> str:
        """Return the text with `candidate` where the mask was."""
        return candidate.join(self.parts)


def occurrences(
    documents: Iterable[Document], *, shortest: int = 1, labels: Sequence[str] = ()
) -> list[Occurrence]:
    """Return every PII of at least `shortest` characters and, if `labels` are named, of those."""
    return [
        found
        for document in documents
        if not document.is_prompt
        for span in document.pii or ()
        if (found := _stripped(document, span)) and len(found.string) >= shortest
        if not labels or found.label in labels
    ]


def _stripped(document: Document, span: PiiSpan) -> Occurrence | None:
    """Return a span as an occurrence without white space at its ends; None if nothing is left."""
    whole = document.text[span.start : span.end]
    start = span.start + len(whole) - len(whole.lstrip())
    string = whole.strip()
    return Occurrence(document, start, string, span.label) if string else None


def choose_occurrences(
    found: Sequence[Occurrence], seed: int, per_document: int = 0
) -> list[Occurrence]:
    """Return occurrences of distinct strings in the order in which they are to be asked.

    The order is random and the input's own does not matter. First comes one of each document, then
    a second of each, and so on, up to `per_document` if that is not 0.
    """
    once: dict[str, Occurrence] = {}
    for one in sorted(found, key=lambda one: one.key(seed)):
        once.setdefault(normalize(one.string), one)
    turns: Counter[str] = Counter()
    ordered = []
    for one in once.values():
        turns[one.document.text] += 1
        ordered.append((turns[one.document.text], one))
    limit = per_document or len(ordered)
    return [one for turn, one in sorted(ordered, key=lambda pair: pair[0]) if turn <= limit]


def cloze_questions(
    asked: Iterable[Occurrence],
    found: Iterable[Occurrence],
    corpus: Iterable[str],
    *,
    most: int,
    seed: int,
) -> Iterator[ClozeQuestion]:
    """Yield a question for each of `asked`, with up to `most` candidates, the truth among them.

    The others are drawn at random from `found`: strings of the same kind that stand nowhere in the
    document. What is lacking is invented and stands in no text of `corpus`. Fewer candidates are
    the first of them.
    """
    pools, texts = _pools(found), sorted(set(corpus))
    invented: dict[Kind, tuple[str, ...]] = {}
    for one in asked:
        pool = pools[one.kind]
        text = one.document.text
        real = [s for s in pool if normalize(s) != normalize(one.string) and s not in text]
        others = _drawn(real, one.key(seed))[: most - 1]
        kept = len(others)
        if kept < most - 1:
            if one.kind not in invented:
                invented[one.kind] = fill_candidates(
                    pool, one.label, texts, count=most - 1, seed=seed
                )
            others += _drawn(invented[one.kind], one.key(seed))[: most - 1 - kept]
        yield ClozeQuestion(one, tuple(others), kept)


def _pools(found: Iterable[Occurrence]) -> Mapping[Kind, list[str]]:
    """Return the distinct strings of each kind, sorted."""
    pools: dict[Kind, dict[str, str]] = {}
    for one in sorted(found, key=lambda one: one.string):
        pools.setdefault(one.kind, {}).setdefault(normalize(one.string), one.string)
    return {kind: sorted(pool.values()) for kind, pool in pools.items()}


def _drawn(strings: Iterable[str], key: str) -> list[str]:
    """Return `strings` in a random order that follows from `key` alone."""
    return sorted(strings, key=lambda string: _hash(f"{key}\x00{string}"))


def context_window(
    one: Occurrence, offsets: Sequence[tuple[int, int]], tokens: int
) -> ClozeWindow | None:
    """Return at most `tokens` tokens of the document around `one`; None if it alone has more.

    Both sides get half; what one side does not need goes to the other. `offsets` are the
    document's tokens.
    """
    first = next((i for i, (_, end) in enumerate(offsets) if end > one.start), len(offsets))
    last = next((i for i, (start, _) in enumerate(offsets) if start >= one.end), len(offsets))
    around = tokens - (last - first)
    if around < 1:
        return None
    after = len(offsets) - last
    left = min(first, max(around - after, around - around // 2))
    right = min(after, around - left)
    begin = min(one.start, offsets[first - left][0]) if left < first else 0
    text = one.document.text
    end = max(one.end, offsets[last + right - 1][1]) if right < after else len(text)
    return ClozeWindow(_parts(one, begin, end), at_start=begin == 0)


def _parts(one: Occurrence, begin: int, end: int) -> tuple[str, ...]:
    """Return the text from `begin` to `end` cut at every mention of the string, less those.

    A mention left standing would give the answer away. A part of a longer word is none.
    """
    text, parts, at = one.document.text, [], begin
    mention = re.compile(f"(?<!{_WORD}){re.escape(one.string)}(?!{_WORD})")
    starts = {found.start() for found in mention.finditer(text, begin, end)}
    for start in sorted({*starts, one.start}):
        crosses = start != one.start and abs(start - one.start) < len(one.string)
        if start >= at and not crosses:
            parts.append(text[at:start])
            at = start + len(one.string)
    return (*parts, text[at:end])


def normalize(string: str) -> str:
    """Return what equal strings have in common: neither case nor white space tells them apart."""
    return " ".join(string.split()).casefold()


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
