"""Words and terms of a sentence, remembered by the piece between two spaces.

The Treebank rules look no further than the spaces around a piece, save at the two ends of a
sentence. So a piece is tokenised once, with its context, and looked up from then on.
"""

import re
import sys
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from string import punctuation

from fedaudit.api.scripts import HAN

from .stemming import stem
from .treebank import tokenize_between

_MEMORY = 1 << 17
"""Pieces that are remembered."""
END = 0
"""Behind the terms of a sentence; no term has it."""
_END = bytes(8)
_PUNCTUATION = frozenset(punctuation)
_HAN_RUN = re.compile(f"[{HAN}]+")
Word = tuple[int, int, int]
"""Code, start, end."""
_PIECES = re.compile(f"[{HAN}]|[^\\W{HAN}]+(?:['’][^\\W{HAN}]+)*")


def term_code(string: str) -> int:
    """Return 64 bits for a string, the same in every process."""
    return int.from_bytes(_code(string), sys.byteorder, signed=True)


def _code(string: str) -> bytes:
    """Return the same 64 bits as this machine writes them."""
    digest = blake2b(string.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (digest if sys.byteorder == "big" else digest[::-1]) if digest != _END else b"\1" * 8


def term_codes(sentences: Sequence[str], *, han: bool, lower: Callable[[str], str]) -> bytes:
    """Return the codes of the terms of sentences without NUL, in order, eight bytes each.

    Terms are stems of words of three or more characters and pairs of Chinese characters, of what
    `lower` makes of the sentences; `END` stands behind those of each. `han` says whether Chinese
    characters are words of their own. All sentences are cut at once, with NUL where one begins and
    where it ends, and bytes are joined, because loops in C are several times faster than ours.
    """
    if not sentences:
        return b""
    joined = "\0 \0".join(sentences)
    return b"".join(map(_known_terms(han).__getitem__, lower(f"\0{joined}\0").split(" ")))


def words(sentence: str, *, han: bool) -> list[Word]:
    """Return (code, start, end) of the words of a lower-case sentence."""
    pieces = sentence.split(" ")
    if len(pieces) == 1 or sentence[-1].isspace():
        return list(_words(sentence, "", "", han))
    offset, result, end = 0, list[Word](), len(pieces) - 1
    for number, piece in enumerate(pieces):
        piece_words = _words(piece, "x" if number else "", "x" if number < end else "", han)
        result += [(word, offset + start, offset + stop) for word, start, stop in piece_words]
        offset += len(piece) + 1
    return result


class _Remembered(dict[str, bytes]):
    """The terms of pieces, with NUL at the ends of a sentence; loops in C look into it."""

    def __init__(self, *, han: bool) -> None:
        self.han = han

    def __missing__(self, piece: str) -> bytes:
        if len(self) >= _MEMORY:
            self.clear()
        # One NUL alone is a beginning, before white space: no sentence ends with that.
        before = "" if piece.startswith("\0") else "x"
        after = "" if piece.endswith("\0") and piece != "\0" else "x"
        codes = _term_bytes(piece.strip("\0"), before, after, self.han)
        self[piece] = codes = codes if after else codes + _END
        return codes


@cache
def _known_terms(han: bool) -> _Remembered:
    return _Remembered(han=han)


def _term_bytes(piece: str, before: str, after: str, han: bool) -> bytes:
    """Return the terms of a piece that has a word before or after it, or an end of the sentence."""
    return b"".join(
        _han_terms(token) if han and not token.isascii() else _terms(token)
        for token in _tokens(piece, before, after)
    )


@lru_cache(maxsize=_MEMORY)
def _words(piece: str, before: str, after: str, han: bool) -> tuple[Word, ...]:
    """Return the words of a piece, from its start."""
    offset, result = 0, list[Word]()
    for token in _tokens(piece, before, after):
        offset = piece.find(token, offset)
        if han and not token.isascii():
            result += [
                (term_code(m.group()), offset + m.start(), offset + m.end())
                for m in _PIECES.finditer(token)
            ]
        else:
            result.append((term_code(token), offset, offset + len(token)))
        offset += len(token)
    return tuple(result)


def _tokens(piece: str, before: str, after: str) -> list[str]:
    """Return the tokens of a piece that are more than punctuation."""
    tokens = tokenize_between(piece, before, after)
    return [token for token in tokens if not _PUNCTUATION.issuperset(token)]


@lru_cache(maxsize=_MEMORY)
def _terms(token: str) -> bytes:
    """Return the stem of a token that counts: three or more characters, no punctuation first."""
    return _code(stem(token)) if len(token) >= 3 and token[0].isalnum() else b""


def _han_terms(token: str) -> bytes:
    """Return pairs of neighbouring Chinese characters, and the stems of what is between them."""
    runs = _HAN_RUN.findall(token)
    pairs = [run[i : i + 2] for run in runs for i in range(max(1, len(run) - 1))]
    other_words = [word for word in _PIECES.findall(token) if not _HAN_RUN.match(word)]
    return b"".join([*map(_code, pairs), *map(_terms, other_words)])
