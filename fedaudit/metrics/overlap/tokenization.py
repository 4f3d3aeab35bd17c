"""Words and terms of a sentence, with a cache of the pieces between two spaces.

The Treebank rules look no further than the spaces around a piece, except at both ends of a
sentence. So a piece is tokenised once, with its context, and then looked up.
"""

import re
import sys
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from string import punctuation
from typing import Any

from fedaudit.api.scripts import HAN

_MEMORY = 1 << 17
"""The maximum number of pieces in the cache."""
END = 0
"""The code that follows the terms of a sentence; it is not the code of any term."""
_END = bytes(8)
_PUNCTUATION = frozenset(punctuation)
_HAN_RUN = re.compile(f"[{HAN}]+")
Word = tuple[int, int, int]
"""Code, start, end."""
_PIECES = re.compile(f"[{HAN}]|[^\\W{HAN}]+(?:['’][^\\W{HAN}]+)*")


def term_code(string: str) -> int:
    """Return a 64-bit hash of a string, the same in every process."""
    return int.from_bytes(_code(string), sys.byteorder, signed=True)


def _code(string: str) -> bytes:
    """Return the same hash as bytes in this machine's byte order."""
    digest = blake2b(string.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (digest if sys.byteorder == "big" else digest[::-1]) if digest != _END else b"\1" * 8


def term_codes(sentences: Sequence[str], *, han: bool, lower: Callable[[str], str]) -> bytes:
    """Return the codes of the terms of sentences, in order, eight bytes each.

    Terms are stems of words of three or more characters, and pairs of Chinese characters, after
    `lower`; `END` follows the terms of each sentence. `han` says whether Chinese characters are
    words of their own. Sentences must not contain NUL: all are joined and split at once, with NUL
    at both ends of each, since loops in C are several times faster than Python's.
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
    """A cache of the term codes of pieces, which have NUL at the ends of a sentence.

    It is a dictionary, so that loops in C can look pieces up.
    """

    def __init__(self, *, han: bool) -> None:
        self.han = han

    def __missing__(self, piece: str) -> bytes:
        if len(self) >= _MEMORY:
            self.clear()
        # A lone NUL is a beginning followed by white space, since no sentence ends in white space.
        before = "" if piece.startswith("\0") else "x"
        after = "" if piece.endswith("\0") and piece != "\0" else "x"
        codes = _term_bytes(piece.strip("\0"), before, after, self.han)
        self[piece] = codes = codes if after else codes + _END
        return codes


@cache
def _known_terms(han: bool) -> _Remembered:
    return _Remembered(han=han)


def _term_bytes(piece: str, before: str, after: str, han: bool) -> bytes:
    """Return the term codes of a piece; `before` and `after` are empty at ends of a sentence."""
    return b"".join(
        _han_terms(token) if han and not token.isascii() else _terms(token)
        for token in _tokens(piece, before, after)
    )


@lru_cache(maxsize=_MEMORY)
def _words(piece: str, before: str, after: str, han: bool) -> tuple[Word, ...]:
    """Return the words of a piece, with positions relative to its start."""
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
    """Return the tokens of a piece, without those that are only punctuation."""
    tokens = tokenize_between(piece, before, after)
    return [token for token in tokens if not _PUNCTUATION.issuperset(token)]


@lru_cache(maxsize=_MEMORY)
def _terms(token: str) -> bytes:
    """Return the code of a token's stem; empty for under three characters or a leading mark."""
    return _code(_stemmer().stem(token)) if len(token) >= 3 and token[0].isalnum() else b""


def _han_terms(token: str) -> bytes:
    """Return the codes of pairs of neighbouring Chinese characters, and of other words' stems."""
    runs = _HAN_RUN.findall(token)
    pairs = [run[i : i + 2] for run in runs for i in range(max(1, len(run) - 1))]
    other_words = [word for word in _PIECES.findall(token) if not _HAN_RUN.match(word)]
    return b"".join([*map(_code, pairs), *map(_terms, other_words)])


@cache
def _stemmer() -> Any:
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer()


@cache
def _treebank() -> Any:
    from nltk.tokenize.treebank import TreebankWordTokenizer

    return TreebankWordTokenizer()


_DIVIDED = re.compile(r"--|cannot|gimme|gonna|gotta|lemme|wanna")
_PLAIN = re.compile(r"[(\[{<]*([\w/+*=~^|§°€£-]+)[\])}>;:?!,]*")
"""A word that no rule splits, between brackets and marks that are tokens of their own."""


def tokenize_between(piece: str, before: str, after: str) -> list[str]:
    """Return the tokens of a lower-case piece of a sentence; punctuation may be left out.

    `before` and `after` are the neighbouring words, or empty at the ends of the sentence.
    """
    plain = _PLAIN.fullmatch(piece[:-1] if piece[-1:] == "." and not after else piece)
    if plain and not _DIVIDED.search(piece):
        return [plain[1]]  # punctuation is not a word
    words: list[str] = _treebank().tokenize(" ".join(filter(None, (before, piece, after))))
    return words[bool(before) : len(words) - bool(after)]
