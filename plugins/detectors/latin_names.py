"""Names of people in Latin letters: after a title, by a known first name, by a surname's ending.

Found without a model: runs of words that begin with a capital are examined, each up to a word that
names an institution, a place or a month. A surname that was found counts wherever else it stands
in the text.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .name_lists import NameLists, name_lists
from .name_words import NO_NAMES, TITLES

TITLED, LISTED, ENDING = 0.85, 0.6, 0.5
"""Scores: after a title, by a first name that is listed, by how a surname ends."""
MOST_WORDS = 5
LONGEST_CUT = 2
SHORTEST_AGAIN = 4
"""A surname of fewer letters is not looked for elsewhere in the text."""
SHORTEST_ENDING = 6
"""A surname of fewer letters says nothing by its ending."""

_TITLE = rf"(?:{'|'.join(TITLES)})\.?\s+"
_WORD = r"[^\W\d_a-z\u00df-\u00ff][^\W\d_]*(?:['’\-\u2010\u2011][^\W\d_]+)*"
_INITIALS = r"(?:[^\W\d_a-z]\.){1,3}"
_PARTICLES = (
    "de|da|do|dos|das|del|della|di|du|la|le|van|von|der|den|ter|ten|zu|af|av|bin|ibn|bint|el|al"
)
_RUN = re.compile(
    rf"(?<![\w'’-])(?P<title>{_TITLE})?"
    rf"(?P<name>(?:{_INITIALS}|{_WORD})(?:\s+(?:(?:{_PARTICLES})\s+){{0,2}}(?:{_INITIALS}|{_WORD}))*)"
)
_PIECE = re.compile(rf"{_INITIALS}|{_WORD}|[^\W\d_]+")
_POSSESSIVE = re.compile(r"['’]s?$")
_ENDING = re.compile(
    r"..(?:ova?|i?[iy]?eva?|ina?|sky|skiy|skaya|sk[ai]|vi[ćcč]h?|o[ğg]lu|[iy]an|dze|shvili|enko|chuk"
    r"|escu|eanu|s[oe]n|sson|poulos|idis|akis|mann|berg|stein|ovna|evna|wicz|czyk|kaya|t[üu]rk|nen"
    r"|ez|[ãa]es|eira|inho|etti|elli|ucci)$"
)
_STATES = ("U.S.", "U.K.", "E.U.", "U.N.")


class FoundName(NamedTuple):
    """A name's position in a text, and how likely it is one."""

    start: int
    end: int
    score: float


class _Piece(NamedTuple):
    start: int
    end: int
    text: str

    @property
    def bare(self) -> str:
        """The word without a genitive's ending."""
        return _POSSESSIVE.sub("", self.text)

    @property
    def stops(self) -> bool:
        """Whether no name goes on here: at an institution, a place, an abbreviation."""
        shouted = len(self.text) > 1 and self.text.isupper() and "." not in self.text
        return self.bare in NO_NAMES or self.text.strip() in _STATES or shouted


def latin_names(text: str) -> Iterator[FoundName]:
    """Yield the names of people in a text, in no order; none overlaps another."""
    lists, positions, surnames = name_lists(), set[int](), dict[str, float]()
    for run in _RUN.finditer(text):
        offset = run.start("name")
        pieces = [
            _Piece(offset + match.start(), offset + match.end(), match.group())
            for match in _PIECE.finditer(run["name"])
        ]
        for name, surname in _names(pieces, lists, titled=run["title"] is not None):
            if name.end - name.start <= LONGEST_CUT and text[name.end : name.end + 1] == ".":
                continue  # what an initial of two letters leaves of "Mr Kh."
            positions.update(range(name.start, name.end))
            surnames.setdefault(surname, name.score)
            yield name
    for surname, score in surnames.items():
        if len(surname) >= SHORTEST_AGAIN:
            for again in re.finditer(rf"(?<![\w'’-]){re.escape(surname)}(?![\w-])", text):
                if again.start() not in positions:
                    yield FoundName(*again.span(), score)


def _names(
    pieces: Sequence[_Piece], lists: NameLists, *, titled: bool
) -> Iterator[tuple[FoundName, str]]:
    """Yield each name of words that stand together, with its surname."""
    run: list[_Piece] = []
    for piece in (*pieces, None):
        if piece is not None and not piece.stops:
            run.append(piece)
            continue
        if (words := _trim_particles(run)) and not all("." in word.text for word in words):
            score = TITLED if titled else _score(words, lists)
            if score:
                surname = words[-1].bare
                end = words[-1].start + len(surname.rstrip())
                yield FoundName(words[0].start, end, score), surname
        run, titled = [], False


def _trim_particles(run: Sequence[_Piece]) -> list[_Piece]:
    """Return the words without particles at their ends; initials alone are no name."""
    words = list(run)
    while words and words[-1].text[0].islower():
        words.pop()
    while words and words[0].text[0].islower():
        words.pop(0)
    return words


def _score(run: Sequence[_Piece], lists: NameLists) -> float:
    """Return how sure such words are a name without a title; 0 where they are none."""
    words = [piece for piece in run if not piece.text[0].islower()]
    if not 2 <= len(words) <= MOST_WORDS:
        return 0.0
    first, last = words[0].bare, words[-1].bare
    has_ending = _ENDING.search(last.lower()) is not None
    if "." in first:
        return LISTED if last in lists.last or has_ending else 0.0
    if first in lists.first:
        return LISTED
    return ENDING if has_ending and len(last) >= SHORTEST_ENDING else 0.0
