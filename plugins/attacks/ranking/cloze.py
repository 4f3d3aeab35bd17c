"""Questions of the inference attack: one PII is masked, and candidates are offered for it."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fedaudit.api import HAN, Document, PiiSpan, has_han
from fedaudit.extraction.controls import fill_candidates

_WORD = rf"[^\W{HAN}]"
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
        return self.label, has_han(self.string)

    def key(self, seed: int) -> str:
        """Return a random sort key, which does not depend on the order of occurrences."""
        return _hash(f"{seed}\x00{self.document.text}\x00{self.start}\x00{self.label}")


@dataclass(frozen=True, slots=True)
class ClozeQuestion:
    """An occurrence, and the candidates besides the truth, those of the file first."""

    occurrence: Occurrence
    distractors: tuple[str, ...]
    real: int
    """How many of `distractors` are of the file; the rest is invented."""


@dataclass(frozen=True, slots=True)
class ClozeWindow:
    """What stands around every mention of the masked string; the string joins the parts."""

    segments: tuple[str, ...]
    at_start: bool
    """Whether it begins where its document begins."""

    def sentence(self, candidate: str) -> str:
        """Return the text with `candidate` where the mask was."""
        return candidate.join(self.segments)


def occurrences(documents: Iterable[Document], *, shortest: int = 1) -> list[Occurrence]:
    """Return every PII of at least `shortest` characters."""
    return [
        occurrence
        for document in documents
        if not document.is_prompt
        for span in document.pii or ()
        if (occurrence := _strip_span(document, span)) and len(occurrence.string) >= shortest
    ]


def _strip_span(document: Document, span: PiiSpan) -> Occurrence | None:
    """Return a span as an occurrence without white space at its ends; None if nothing is left."""
    raw = document.text[span.start : span.end]
    start = span.start + len(raw) - len(raw.lstrip())
    string = raw.strip()
    return Occurrence(document, start, string, span.label) if string else None


def choose_occurrences(
    all_occurrences: Sequence[Occurrence], seed: int, per_document: int = 0
) -> list[Occurrence]:
    """Return occurrences of distinct strings in the order in which they are to be asked.

    The order is random and the input's own does not matter. First comes one of each document, then
    a second of each, and so on, up to `per_document` if that is not 0.
    """
    once: dict[str, Occurrence] = {}
    for occurrence in sorted(all_occurrences, key=lambda occurrence: occurrence.key(seed)):
        once.setdefault(normalize(occurrence.string), occurrence)
    turns: Counter[str] = Counter()
    ordered = []
    for occurrence in once.values():
        turns[occurrence.document.text] += 1
        ordered.append((turns[occurrence.document.text], occurrence))
    limit = per_document or len(ordered)
    return [
        occurrence
        for turn, occurrence in sorted(ordered, key=lambda pair: pair[0])
        if turn <= limit
    ]


def cloze_questions(
    masked_occurrences: Iterable[Occurrence],
    all_occurrences: Iterable[Occurrence],
    corpus: Iterable[str],
    *,
    most: int,
    seed: int,
    invent: bool = True,
) -> Iterator[ClozeQuestion]:
    """Yield a question for each of `masked_occurrences`, of up to `most` candidates and the truth.

    The others are drawn at random from `all_occurrences`: strings of the same kind that stand
    nowhere in the document. With `invent`, missing ones are invented and stand in no text of
    `corpus`. With a smaller `most`, the candidates are the first of these.
    """
    pools, texts = _pools(all_occurrences), sorted(set(corpus))
    invented: dict[Kind, tuple[str, ...]] = {}
    for occurrence in masked_occurrences:
        pool = pools[occurrence.kind]
        text = occurrence.document.text
        real = [s for s in pool if normalize(s) != normalize(occurrence.string) and s not in text]
        distractors = _shuffle(real, occurrence.key(seed))[: most - 1]
        real_count = len(distractors)
        if invent and real_count < most - 1:
            if occurrence.kind not in invented:
                invented[occurrence.kind] = fill_candidates(
                    pool, occurrence.label, texts, count=most - 1, seed=seed
                )
            distractors += _shuffle(invented[occurrence.kind], occurrence.key(seed))[
                : most - 1 - real_count
            ]
        yield ClozeQuestion(occurrence, tuple(distractors), real_count)


def _pools(all_occurrences: Iterable[Occurrence]) -> Mapping[Kind, list[str]]:
    """Return the distinct strings of each kind, sorted."""
    pools: dict[Kind, dict[str, str]] = {}
    for occurrence in sorted(all_occurrences, key=lambda occurrence: occurrence.string):
        pools.setdefault(occurrence.kind, {}).setdefault(
            normalize(occurrence.string), occurrence.string
        )
    return {kind: sorted(pool.values()) for kind, pool in pools.items()}


def _shuffle(strings: Iterable[str], key: str) -> list[str]:
    """Return `strings` in a random order that follows from `key` alone."""
    return sorted(strings, key=lambda string: _hash(f"{key}\x00{string}"))


def context_window(
    occurrence: Occurrence, offsets: Sequence[tuple[int, int]], tokens: int
) -> ClozeWindow | None:
    """Return at most `tokens` tokens of text around `occurrence`; None if it alone has more.

    Both sides get half; what one side does not need goes to the other. `offsets` are the
    document's tokens.
    """
    first = next((i for i, (_, end) in enumerate(offsets) if end > occurrence.start), len(offsets))
    last = next(
        (i for i, (start, _) in enumerate(offsets) if start >= occurrence.end), len(offsets)
    )
    around = tokens - (last - first)
    if around < 1:
        return None
    after = len(offsets) - last
    left = min(first, max(around - after, around - around // 2))
    right = min(after, around - left)
    begin = min(occurrence.start, offsets[first - left][0]) if left < first else 0
    text = occurrence.document.text
    end = max(occurrence.end, offsets[last + right - 1][1]) if right < after else len(text)
    return ClozeWindow(_split_at_mentions(occurrence, begin, end), at_start=begin == 0)


def _split_at_mentions(occurrence: Occurrence, begin: int, end: int) -> tuple[str, ...]:
    """Return the text from `begin` to `end`, split at and without every mention of the string.

    A mention left standing would give the answer away. A part of a longer word is not a mention.
    """
    text, parts, position = occurrence.document.text, [], begin
    mention = re.compile(f"(?<!{_WORD}){re.escape(occurrence.string)}(?!{_WORD})")
    starts = {match.start() for match in mention.finditer(text, begin, end)}
    for start in sorted({*starts, occurrence.start}):
        crosses = start != occurrence.start and abs(start - occurrence.start) < len(
            occurrence.string
        )
        if start >= position and not crosses:
            parts.append(text[position:start])
            position = start + len(occurrence.string)
    return (*parts, text[position:end])


def normalize(string: str) -> str:
    """Return `string` in one case and with single spaces, in which equal strings are alike."""
    return " ".join(string.split()).casefold()


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
