"""NLTK's Porter stemmer, which skips the steps that cannot change a word of its ending."""

from functools import cache
from typing import Any

_STEPS = (
    ("_step1a", ("s",)),
    ("_step1b", ("ed", "ing")),
    ("_step1c", ("y",)),
    (
        "_step2",
        (
            *("tional", "enci", "anci", "izer", "bli", "alli", "entli", "eli", "ousli", "ization"),
            *("ation", "ator", "alism", "iveness", "fulness", "ousness", "aliti", "iviti"),
            *("biliti", "fulli", "logi"),
        ),
    ),
    ("_step3", ("icate", "ative", "alize", "iciti", "ical", "ful", "ness")),
    (
        "_step4",
        (
            *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ent", "ion", "ou", "ism"),
            *("ate", "iti", "ous", "ive", "ize"),
        ),
    ),
    ("_step5a", ("e",)),
    ("_step5b", ("ll",)),
)
"""The steps of NLTK's stemmer, each with the endings without which it does not change a word."""


def stem(word: str) -> str:
    """Return the stem that NLTK's PorterStemmer gives a lower-case word."""
    irregular, steps = _porter()
    if word in irregular:
        return str(irregular[word])
    if len(word) > 2:
        for step, endings in steps:
            if word.endswith(endings):
                word = step(word)
    return word


@cache
def _porter() -> tuple[Any, list[tuple[Any, tuple[str, ...]]]]:
    """Return NLTK's irregular words, and its steps with their endings."""
    from nltk.stem.porter import PorterStemmer

    stemmer = PorterStemmer()
    return stemmer.pool, [(getattr(stemmer, name), endings) for name, endings in _STEPS]
