"""Pseudonyms: the same string of one label gets the same invented one, and no two share theirs."""

import hashlib
import hmac
import random
from collections.abc import Iterable
from itertools import count

from fedaudit.pii.invented import like

ATTEMPTS = 50
"""How often something is invented before a numbered label has to do."""


def pseudonyms(pairs: Iterable[tuple[str, str]], *, key: str) -> dict[tuple[str, str], str]:
    """Return a pseudonym for each (string, label) of a data set, white space around it apart.

    None equals a string of the data set, of whatever label and case, and no two are equal, so what
    was told apart still is. What cannot be invented becomes a numbered label, such as <GENDER-1>.
    The pseudonyms follow from the strings, their labels and `key`, not from their order; a string
    more in the data set changes another's only where they would have been the same.
    """
    known = sorted({(string.strip(), label) for string, label in pairs})
    taken = {string.casefold() for string, _ in known}
    result = {}
    for string, label in known:
        new = _invented(string, label, taken, key) or _numbered(label, taken)
        taken.add(new.casefold())
        result[string, label] = new
    return result


def _invented(string: str, label: str, taken: set[str], key: str) -> str | None:
    """Return the first invention that is nobody's yet, if there is one."""
    for attempt in range(ATTEMPTS):
        new = like(string, label, _random(key, label, string, str(attempt)))
        if new is None:
            return None
        if new.casefold() not in taken:
            return new
    return None


def _numbered(label: str, taken: set[str]) -> str:
    tags = (f"<{label}-{number}>" for number in count(1))
    return next(tag for tag in tags if tag.casefold() not in taken)


def _random(key: str, *parts: str) -> random.Random:
    """Return a generator that nobody can foretell who does not know `key`."""
    message = "\x00".join(parts).encode("utf-8", "surrogatepass")
    return random.Random(hmac.digest(key.encode(), message, hashlib.sha256))
