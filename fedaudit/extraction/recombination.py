"""Strings that look like some others and are nobody's: made of the pieces of a corpus.

A string is cut into words, numbers and what stands between them. Each word gives way to one that
stands in the same place of another string of its kind, or to any word of the corpus that is
written alike; each digit to one that strings of the same shape have there, or to any. What stands
between stays. So "Ann Lee" becomes "Ann Cox", "12 March" becomes "27 July". What is written in Han,
Hangul or kana, where a name is one word, is cut into characters: so "김철수" becomes "김영희". No
piece gives way to one of another script.
"""

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fedaudit.api.scripts import HAN, scripts

_SIGNS = f"{HAN}\uac00-\ud7a3\u3041-\u3096\u30a1-\u30fa"
"""Characters of which a few make a name: Han, Hangul syllables, Hiragana and Katakana."""
_PIECE = re.compile(rf"\d+|[{_SIGNS}]|[^\W\d_{_SIGNS}]+|.", re.DOTALL)
_WORD = re.compile(rf"[^\W\d_{_SIGNS}]+")
_SIGN = re.compile(f"[{_SIGNS}]")

MIN_CHOICES = 5
"""With fewer different words for a place than these, words of the whole corpus may stand there."""
CORPUS_WORD_RATE = 0.25
"""How often a word is any of the corpus, so that few strings make many different ones."""
MAX_WORDS = 20_000
"""Words of a corpus that are kept for each way of writing: the first ones in it."""


def split_pieces(string: str) -> list[str]:
    """Return words, numbers, single signs (Han, Hangul, kana) and other characters, in order."""
    return _PIECE.findall(string)


def piece_shape(piece: str) -> str:
    """Return how a piece is written, in short.

    That is "9" and its length; "Aa", "AA" or "aa", and the script if it is not Latin; "漢" or the
    script of another single sign; else the piece itself.
    """
    if piece.isdecimal():
        return f"9{len(piece)}"
    if not piece.isalpha():
        return piece
    # What is true of most words is told at once: a corpus has many.
    script = "LATIN" if piece.isascii() else " ".join(sorted(scripts(piece)))
    if _SIGN.match(piece):
        return "漢" if script == "CJK" else script
    case = "aa" if piece.islower() else "AA" if piece.isupper() else "Aa"
    return case if script == "LATIN" else f"{case} {script}"


def shape_signature(string: str) -> tuple[str, ...]:
    """Return the shapes of a string's pieces: strings of one signature can swap any piece."""
    return tuple(map(piece_shape, split_pieces(string)))


def words_by_shape(texts: Iterable[str]) -> dict[str, list[str]]:
    """Return the distinct words of some texts by how they are written, in order of appearance."""
    by_shape: dict[str, dict[str, None]] = defaultdict(dict)
    for text in texts:
        for word in (*_WORD.findall(text), *_SIGN.findall(text)):
            words = by_shape[piece_shape(word)]
            if len(words) < MAX_WORDS:
                words[word] = None
    return {form: list(words) for form, words in by_shape.items()}


@dataclass(frozen=True)
class Recombiner:
    """Makes strings like those of one kind."""

    donors: Sequence[str]
    """Strings of the kind, whose pieces are used."""
    words: Mapping[str, Sequence[str]]
    """Words of the corpus by shape, where the donors have too few."""
    _roles: dict[tuple[str, int, int], list[str]] = field(default_factory=dict)
    _digits: dict[tuple[tuple[str, ...], int], list[str]] = field(default_factory=dict)

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
        cut = split_pieces(string)
        shapes = tuple(map(piece_shape, cut))
        return "".join(self._swap_piece(piece, shapes, i, rng) for i, piece in enumerate(cut))

    def _swap_piece(
        self, piece: str, shapes: tuple[str, ...], position: int, rng: random.Random
    ) -> str:
        form = shapes[position]
        if form[0] == "9":
            alike = self._digits.get((shapes, position), [])
            return "".join(_digit(alike, i, rng) for i in range(len(piece)))
        if not piece.isalpha():
            return piece
        first, last = _roles(form, position, len(shapes))
        choice: Sequence[str] = sorted({*self._roles.get(first, ()), *self._roles.get(last, ())})
        anything = self.words.get(form, ())
        if anything and (len(choice) < MIN_CHOICES or rng.random() < CORPUS_WORD_RATE):
            choice = anything
        return rng.choice(choice) if choice else piece


def _roles(
    form: str, position: int, count: int
) -> tuple[tuple[str, int, int], tuple[str, int, int]]:
    """Return a piece's place counted from the beginning, and from the end."""
    return (form, position, 0), (form, count - position, 1)


def _digit(alike: Sequence[str], index: int, rng: random.Random) -> str:
    """Return a digit as strings of this shape have it there, each digit seen once more than it was.

    That is the mean of a multinomial law after the uniform prior (Laplace's rule).
    """
    pick = rng.randrange(len(alike) + 10)
    return alike[pick][index] if pick < len(alike) else str(pick - len(alike))
