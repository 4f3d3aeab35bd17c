"""Near duplicates: a record and its masked, truncated, re-wrapped or re-spelt copy.

Records from one template share most words, so words alone do not make a copy: two records must
also hold the same personal data, as far as the one with less of it still holds any.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fedaudit.api.records import Document
from fedaudit.pii.normalized_search import fold

LEAST_WORDS = 0.85
"""The share of the shorter record's words that a copy has, in the same order."""
LEAST_STRINGS = 0.8
"""The share of strings that a copy has, of the record with fewer strings."""

_MASK = re.compile(
    r"<[\w ./-]{1,40}>|\[[\w ./-]{1,40}\]|\{[\w ./-]{1,40}\}"  # <PERSON>, [NAME], {name}
    r"|[\u2580-\u25ff*]+|[_#]{2,}|\b[xX]{3,}\b"  # black bars, ***, ____, XXXX
    r"|(?<![A-Za-z])[A-Za-z]+_\d+"  # PERSON_1
    r"|\bredacted\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af]|[^\W_\u2e80-\u9fff\uac00-\ud7af]+")


@dataclass(frozen=True, slots=True)
class _Record:
    """A record without its masks."""

    text: str
    words: tuple[str, ...]
    strings: frozenset[str]
    """Its personal data, folded; without strings that are masks."""
    masked: bool


def share_of_copies(documents: Sequence[Document], originals: Sequence[Document]) -> float:
    """Return the share of records that have a near duplicate in the other corpus.

    The share is of the corpus with fewer telling records: a record does not tell where it comes
    from if everything personal in it was masked or cut off. It is 0 without such records.
    """
    ours, theirs = list(map(_record, documents)), list(map(_record, originals))
    pairs = [(i, j) for i, j in sorted(_candidates(ours, theirs)) if _is_copy(ours[i], theirs[j])]
    copies, copied = {i for i, _ in pairs}, {j for _, j in pairs}
    shares = [
        len(found) / len(telling | found)
        for records, found in ((ours, copies), (theirs, copied))
        if (telling := _telling(records)) or found
    ]
    return max(shares) if len(shares) == 2 else 0.0


def _record(document: Document) -> _Record:
    text = _MASK.sub(" ", document.text)
    strings = {" ".join(_words(_MASK.sub(" ", string))) for string, _ in document.strings()}
    words = _words(text)
    return _Record(
        text=f" {' '.join(words)} ",
        words=words,
        strings=frozenset(filter(None, strings)),
        masked=_MASK.search(document.text) is not None,
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(fold(text)))


def _telling(records: Sequence[_Record]) -> set[int]:
    """Return the numbers of the records with personal data; in a corpus without, of all unmasked.

    Beside records with personal data, one without may have been scrubbed and left no mask.
    """
    with_strings = {number for number, record in enumerate(records) if record.strings}
    return with_strings or {number for number, record in enumerate(records) if not record.masked}


def _candidates(ours: Sequence[_Record], theirs: Sequence[_Record]) -> set[tuple[int, int]]:
    """Return the pairs of which one record has the rarest word of a string of the other."""
    found = {(i, j) for i, j in _with_strings_of(ours, theirs)}
    found |= {(i, j) for j, i in _with_strings_of(theirs, ours)}
    by_text: dict[str, list[int]] = defaultdict(list)
    for j, record in enumerate(theirs):
        by_text[record.text].append(j)
    return found | {(i, j) for i, record in enumerate(ours) for j in by_text.get(record.text, ())}


def _with_strings_of(
    records: Sequence[_Record], others: Sequence[_Record]
) -> Iterator[tuple[int, int]]:
    """Yield (record, other) for every other that has the rarest word of a record's string."""
    index: dict[str, list[int]] = defaultdict(list)
    for j, other in enumerate(others):
        for word in set(other.words):
            index[word].append(j)
    for i, record in enumerate(records):
        for string in record.strings:
            rarest = min((index.get(word, []) for word in string.split()), key=len)
            yield from ((i, j) for j in rarest)


def _is_copy(one: _Record, other: _Record) -> bool:
    """Tell whether two records are near duplicates of each other, whichever is the shorter."""
    from rapidfuzz.distance import LCSseq

    if one.text == other.text:
        return bool(one.strings or other.strings) or not (one.masked or other.masked)
    fewer, more = sorted((_strings(one, other), _strings(other, one)), key=len)
    if not fewer or len(fewer & more) < LEAST_STRINGS * len(fewer):
        return False
    least = LEAST_WORDS * min(len(one.words), len(other.words))
    return LCSseq.similarity(one.words, other.words) >= least


def _strings(record: _Record, other: _Record) -> set[str]:
    """Return a record's strings with those of `other` that it contains: it may be unannotated."""
    return set(record.strings) | {
        string for string in other.strings if f" {string} " in record.text
    }
