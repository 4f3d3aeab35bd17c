"""Words and terms of a sentence, remembered by the piece between two spaces.

The Treebank rules look no further than the spaces around a piece, save at the two ends of a
sentence. So a piece is tokenised once, with its context, and looked up ever after.
"""

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import blake2b
from string import punctuation
from typing import Any

from .sentences import HAN
from .treebank import tokenize_between

_MEMORY = 1 << 17
"""Pieces that are remembered."""
_EDGES = 1 << 14
"""The same at the ends of sentences; in Chinese, whole sentences."""
_PUNCTUATION = frozenset(punctuation)
_HAN_RUN = re.compile(f"[{HAN}]+")
_PIECES = re.compile(f"[{HAN}]|[^\\W{HAN}]+(?:['’][^\\W{HAN}]+)*")


@dataclass(frozen=True, slots=True)
class TokenizedPiece:
    """What a piece of text holds."""

    terms: tuple[int, ...]
    """Stems of words of three or more characters; pairs of Chinese characters."""
    words: tuple[tuple[int, int, int], ...]
    """(code, start, end) of every word, from the start of the piece."""


def term_code(string: str) -> int:
    """Return 64 bits for a string, the same in every process."""
    return int.from_bytes(
        blake2b(string.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big", signed=True
    )


def term_codes(sentence: str, *, han: bool) -> list[int]:
    """Return the codes of the terms of a lower-case sentence, in order.

    `han` says whether Chinese characters are words of their own.
    """
    return [term for piece in _pieces(sentence, han)[1] for term in piece.terms]


def words(sentence: str, *, han: bool) -> list[tuple[int, int, int]]:
    """Return (code, start, end) of the words of a lower-case sentence."""
    at, found = 0, []
    for part, piece in zip(*_pieces(sentence, han), strict=True):
        found += [(word, at + start, at + end) for word, start, end in piece.words]
        at += len(part) + 1
    return found


def _pieces(sentence: str, han: bool) -> tuple[list[str], list[TokenizedPiece]]:
    """Return what lies between the spaces of a sentence, and what it holds."""
    parts = sentence.split(" ")
    if len(parts) == 1 or sentence[-1].isspace():
        return [sentence], [_edge(sentence, "", "", han)]
    inner = _inner_han if han else _inner
    first, last = _edge(parts[0], "", "x", han), _edge(parts[-1], "x", "", han)
    return parts, [first, *map(inner, parts[1:-1]), last]


@lru_cache(maxsize=_MEMORY)
def _inner(part: str) -> TokenizedPiece:
    return _made(part, "x", "x", False)


@lru_cache(maxsize=_MEMORY)
def _inner_han(part: str) -> TokenizedPiece:
    return _made(part, "x", "x", True)


@lru_cache(maxsize=_EDGES)
def _edge(part: str, before: str, after: str, han: bool) -> TokenizedPiece:
    return _made(part, before, after, han)


def _made(part: str, before: str, after: str, han: bool) -> TokenizedPiece:
    """Tokenise a piece that has a word before or after it, or an end of the sentence."""
    at, stems, found = 0, list[int](), list[tuple[int, int, int]]()
    for token in tokenize_between(part, before, after):
        if _PUNCTUATION.issuperset(token):
            continue
        at = part.find(token, at)
        if han and not token.isascii():
            stems += _han_terms(token)
            found += [
                (term_code(m.group()), at + m.start(), at + m.end())
                for m in _PIECES.finditer(token)
            ]
        else:
            stems += _terms(token)
            found.append((term_code(token), at, at + len(token)))
        at += len(token)
    return TokenizedPiece(tuple(stems), tuple(found))


@lru_cache(maxsize=_MEMORY)
def _terms(token: str) -> tuple[int, ...]:
    """Return the stem of a token that counts: three or more characters, no punctuation first."""
    return (term_code(_porter().stem(token)),) if len(token) >= 3 and token[0].isalnum() else ()


def _han_terms(token: str) -> list[int]:
    """Return pairs of neighbouring Chinese characters, and the stems of what is between them."""
    runs = _HAN_RUN.findall(token)
    pairs = [run[i : i + 2] for run in runs for i in range(max(1, len(run) - 1))]
    others = [word for word in _PIECES.findall(token) if not _HAN_RUN.match(word)]
    return [*map(term_code, pairs), *(term for word in others for term in _terms(word))]


@cache
def _porter() -> Any:
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer()
