"""Made-up strings that resemble given ones, recombined from the pieces of a corpus.

A string is split into words, numbers and separators. Each word is replaced by a word from the same
position of another string of the kind, or by any word of the corpus with the same shape; each digit
by one that strings of the same shape have there, or by any. Separators stay. So "Ann Lee" becomes
"Ann Cox", and "12 March" becomes "27 July". Text in Han, Hangul or kana, where a name is one word,
is split into characters: "김철수" becomes "김영희". A piece is never replaced by one of another
script.
"""

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from fedaudit.api.scripts import HAN, scripts

_SIGNS = f"{HAN}\uac00-\ud7a3\u3041-\u3096\u30a1-\u30fa"
"""Characters of scripts that write a name in a few: Han, Hangul, Hiragana and Katakana."""
_PIECE = re.compile(rf"\d+|[{_SIGNS}]|[^\W\d_{_SIGNS}]+|.", re.DOTALL)
_WORD = re.compile(rf"[^\W\d_{_SIGNS}]+")
_SIGN = re.compile(f"[{_SIGNS}]")

Slot = Callable[[random.Random], str]
"""Draws what takes the place of a piece."""

MIN_CHOICES = 5
"""A position with fewer distinct words than this also takes words of the whole corpus."""
CORPUS_WORD_RATE = 0.25
"""How often any word of the corpus is taken, so that few strings give many distinct ones."""
MAX_WORDS = 20_000
"""The most words of a corpus that are kept for each shape: the first ones."""


def split_pieces(string: str) -> list[str]:
    """Return words, numbers, single signs (Han, Hangul, kana) and other characters, in order."""
    return _PIECE.findall(string)


def piece_shape(piece: str) -> str:
    """Return the shape of a piece, a short code.

    It is "9" and the length for a number; "Aa", "AA" or "aa" for a word, with its script if that is
    not Latin; "漢" or the script for a single sign; else the piece itself.
    """
    if piece.isdecimal():
        return f"9{len(piece)}"
    if not piece.isalpha():
        return piece
    # Fast path for ASCII: a corpus has many words.
    script = "LATIN" if piece.isascii() else " ".join(sorted(scripts(piece)))
    if _SIGN.match(piece):
        return "漢" if script == "CJK" else script
    case = "aa" if piece.islower() else "AA" if piece.isupper() else "Aa"
    return case if script == "LATIN" else f"{case} {script}"


def shape_signature(string: str) -> tuple[str, ...]:
    """Return the shapes of a string's pieces; strings with equal signatures can swap any piece."""
    return tuple(map(piece_shape, split_pieces(string)))


def words_by_shape(texts: Iterable[str]) -> dict[str, list[str]]:
    """Return the distinct words of some texts by shape, in order of appearance."""
    by_shape: dict[str, dict[str, None]] = defaultdict(dict)
    for text in texts:
        for word in (*_WORD.findall(text), *_SIGN.findall(text)):
            words = by_shape[piece_shape(word)]
            if len(words) < MAX_WORDS:
                words[word] = None
    return {form: list(words) for form, words in by_shape.items()}


@dataclass(frozen=True)
class Recombiner:
    """Makes new strings that resemble the strings of one kind."""

    donors: Sequence[str]
    """Strings of the kind that supply the pieces."""
    words: Mapping[str, Sequence[str]]
    """Words of the corpus by shape, for positions where the donors have too few."""
    _roles: dict[tuple[str, int, int], list[str]] = field(default_factory=dict)
    _digits: dict[tuple[tuple[str, ...], int], list[str]] = field(default_factory=dict)
    _choices: dict[tuple[tuple[str, int, int], ...], list[str]] = field(default_factory=dict)
    _slots: dict[str, list[Slot]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for donor in sorted(set(self.donors)):
            cut = split_pieces(donor)
            shapes = tuple(map(piece_shape, cut))
            for position, (piece, form) in enumerate(zip(cut, shapes, strict=True)):
                if form[0] == "9":
                    self._digits.setdefault((shapes, position), []).append(piece)
                for role in _roles(form, position, len(cut)):
                    self._roles.setdefault(role, []).append(piece)

    def make(self, string: str, rng: random.Random) -> str:
        """Return another string like `string`, or `string` itself where nothing can be swapped."""
        if string not in self._slots:
            cut = split_pieces(string)
            shapes = tuple(map(piece_shape, cut))
            self._slots[string] = [self._slot(piece, shapes, i) for i, piece in enumerate(cut)]
        return "".join([slot(rng) for slot in self._slots[string]])

    def _slot(self, piece: str, shapes: tuple[str, ...], position: int) -> Slot:
        form = shapes[position]
        if form[0] == "9":
            alike = self._digits.get((shapes, position), [])
            return partial(_number, alike, len(piece))
        roles = _roles(form, position, len(shapes))
        choice = self._choices.get(roles)
        if choice is None:
            pieces = (piece for role in roles for piece in self._roles.get(role, ()))
            choice = self._choices[roles] = sorted(set(pieces))
        anything = self.words.get(form, ())
        if not piece.isalpha() or not (choice or anything):
            return lambda _: piece
        return partial(_word, choice, anything)


def _number(alike: Sequence[str], length: int, rng: random.Random) -> str:
    return "".join([_digit(alike, i, rng) for i in range(length)])


def _word(choice: Sequence[str], anything: Sequence[str], rng: random.Random) -> str:
    """Return a word of `choice`, or, now and then and where those are few, of `anything`."""
    any_word = anything and (len(choice) < MIN_CHOICES or rng.random() < CORPUS_WORD_RATE)
    return rng.choice(anything if any_word else choice)


def _roles(
    form: str, position: int, count: int
) -> tuple[tuple[str, int, int], tuple[str, int, int]]:
    """Return two keys of a piece: its position from the beginning, and from the end."""
    return (form, position, 0), (form, count - position, 1)


def _digit(alike: Sequence[str], index: int, rng: random.Random) -> str:
    """Return a digit drawn as often as it is at `index` in `alike`, plus one for every digit.

    That is the posterior mean of a multinomial under the uniform prior (Laplace's rule).
    """
    pick = rng.randrange(len(alike) + 10)
    return alike[pick][index] if pick < len(alike) else str(pick - len(alike))
