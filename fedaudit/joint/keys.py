"""Completions, texts and strings as elements of the sets that are intersected.

A member's set has a key for every string that one of its completions may be said to begin with,
and for every piece of its own texts that may be a string of another member's. A key is a digest of
a string with the question that it answers, so a member asks six keys for each string of its own.
Keys never leave a member in this form: anyone could try strings on them.
"""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from fedaudit.extraction.leads import Leads, strip_leads
from fedaudit.extraction.matcher import ends_word
from fedaudit.joint.elements import WIDTH
from fedaudit.pii.normalized_search import fold

LONGEST_ANSWER = 100
"""The most characters of a completion that are compared: a longer string cannot come out."""
LONGEST_PIECE = 40
"""The most characters of a piece of a text: of a longer string the first ones are compared."""

TUNED, BASE = "tuned", "base"
LITERAL, STRICT = "literal", "strict"
HELD = "held"


def answer_keys(model: str, text: str, leads: Leads = ()) -> Iterator[bytes]:
    """Yield the key of every string that a completion of a model begins with.

    Literal keys are for strings with exactly these characters, strict ones for strings that end
    with a word, in whatever spelling, as in `extraction.matcher`.
    """
    for form in strip_leads(text, leads):
        literal, folded = form.lstrip(), fold(form)
        for end in range(1, min(len(literal), LONGEST_ANSWER) + 1):
            yield _key(model, LITERAL, literal[:end])
        for end in range(1, min(len(folded), LONGEST_ANSWER) + 1):
            if ends_word(folded, end):
                yield _key(model, STRICT, folded[:end])


def text_keys(text: str) -> Iterator[bytes]:
    """Yield the key of every piece of a text, from the start of a word to the end of another."""
    for rule, form in ((LITERAL, text), (STRICT, fold(text))):
        cuts = [i for i in range(len(form) + 1) if ends_word(form, i)]
        starts = [i for i, j in pairwise(cuts) if _is_word(form[i:j])]
        ends = [j for i, j in pairwise(cuts) if _is_word(form[i:j])]
        first = 0
        for start in starts:
            while ends[first] <= start:
                first += 1
            for end in ends[first:]:
                if end - start > LONGEST_PIECE:
                    yield _key(HELD, rule, form[start : start + LONGEST_PIECE])
                    break
                yield _key(HELD, rule, form[start:end])


def _is_word(piece: str) -> bool:
    return any(map(str.isalnum, piece))


def _piece(string: str) -> str:
    """Return a string from its first word to its last, at most LONGEST_PIECE characters."""
    places = [i for i, char in enumerate(string) if char.isalnum()]
    if not places:
        return ""
    end = next((i for i in range(places[-1] + 1, len(string)) if ends_word(string, i)), len(string))
    return string[places[0] : end][:LONGEST_PIECE]


def _key(source: str, rule: str, string: str) -> bytes:
    whole = f"{source} {rule} {string}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(whole, digest_size=WIDTH).digest()


def _keys_of(string: str) -> dict[tuple[str, str], bytes]:
    """Return the keys that are asked about a string, by what they tell."""
    forms = {LITERAL: string, STRICT: fold(string)}
    keys = {(m, r): _key(m, r, form) for m in (TUNED, BASE) for r, form in forms.items()}
    held = {(HELD, r): _key(HELD, r, piece) for r, form in forms.items() if (piece := _piece(form))}
    return keys | held


def asked_keys(strings: Iterable[str]) -> Iterator[bytes]:
    """Yield the keys that a member asks about its strings."""
    for string in strings:
        yield from _keys_of(string).values()


@dataclass(frozen=True, slots=True)
class Answers:
    """What a member learns of its own strings from another one."""

    drawn: Mapping[tuple[str, str], frozenset[str]]
    """By model and rule, the strings that the other member's completions begin with."""
    held: Mapping[str, frozenset[str]]
    """By rule, the strings that are in the other member's texts, be it in part."""


def read_answers(strings: Iterable[str], common: Collection[bytes]) -> Answers:
    """Return what the keys that are in `common` with another member's set tell of `strings`.

    A string without a letter or a digit counts as held, since no piece of a text is compared
    with it.
    """
    having: dict[tuple[str, str], set[str]] = defaultdict(set)
    for string in strings:
        keys = _keys_of(string)
        for rule in (LITERAL, STRICT):
            for source in (TUNED, BASE, HELD):
                key = keys.get((source, rule))
                if key in common or key is None:
                    having[source, rule].add(string)
    return Answers(
        drawn={(m, r): frozenset(having[m, r]) for m in (TUNED, BASE) for r in (LITERAL, STRICT)},
        held={rule: frozenset(having[HELD, rule]) for rule in (LITERAL, STRICT)},
    )
