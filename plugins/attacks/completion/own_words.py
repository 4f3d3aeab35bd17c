"""What a document says that neither its own beginning nor another document says."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence

from fedaudit.api import HAN, AttackContext

from .pairs import DocumentSplit

_RUN = re.compile(rf"([{HAN}]+)|\d+(?:[.,:/-]\d+)+(?!\w)|[^\W_{HAN}]+")
Piece = tuple[str, int, int]
"""A word, a number or two neighbouring Chinese characters, and where it stands: half-open."""


def splits_with_own_words(context: AttackContext, splits: Sequence[DocumentSplit]) -> set[int]:
    """Return the indices of the splits with a word of their own behind the cut.

    It stands there whole, but neither before the cut nor in a document of anybody else: the rest
    of the victim's (other groups, or other texts where there are none), the attacker's, other
    members' and held-out ones. Case and Unicode form do not matter. Chinese has no spaces between
    words: there a character is of its own where no pair that it is in stands elsewhere.
    """
    outside = set[str]()
    for documents in (context.attacker, *context.members.values(), context.held_out or ()):
        # Without a victim the attacker's own documents are those that are tried.
        if documents is not context.attacked_documents:
            outside.update(*map(_strings, {document.text for document in documents}))
    owners: dict[str, set[str]] = defaultdict(set)
    for document in context.attacked_documents:
        for string in _strings(document.text):
            owners[string].add(_owner(document.group, document.text))
    return {
        i
        for i, split in enumerate(splits)
        if _has_own(split, outside, owners, _owner(split.group, split.document))
    }


def _has_own(
    split: DocumentSplit, outside: set[str], owners: dict[str, set[str]], owner: str
) -> bool:
    """Tell whether a split has a piece behind the cut of which a character is in no known piece."""
    begin, end = split.start, split.start + len(split.text)
    given = _strings(split.document[:begin])

    def is_known(string: str) -> bool:
        return string in outside or string in given or bool(owners[string] - {owner})

    pieces = [piece for piece in _pieces(split.document) if begin <= piece[1] and piece[2] <= end]
    known = {at for string, *span in pieces if is_known(string) for at in range(*span)}
    return any(not known.issuperset(range(*span)) for _, *span in pieces)


def _owner(group: str, text: str) -> str:
    return f"group {group}" if group else f"text {text}"


def _strings(text: str) -> set[str]:
    return {string for string, _, _ in _pieces(text)}


def _pieces(text: str) -> Iterator[Piece]:
    for match in _RUN.finditer(text):
        if match[1]:
            yield from ((text[at : at + 2], at, at + 2) for at in range(*match.span())[:-1])
        else:
            yield unicodedata.normalize("NFKC", match[0]).casefold(), *match.span()
