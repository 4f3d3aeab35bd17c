"""Pseudonyms: the same string of one label gets the same invented one, and no two share theirs."""

import hashlib
import hmac
import random
from collections.abc import Iterable

from fedaudit.pii.surrogates import surrogate_like

ATTEMPTS = 50
"""How often something is invented before a label has to do."""

DIGITS = 8
"""Hexadecimal digits behind such a label: of a thousand strings two share theirs once in 8,600."""


def assign_pseudonyms(pairs: Iterable[tuple[str, str]], *, key: str) -> dict[tuple[str, str], str]:
    """Return a pseudonym for each (string, label) of a data set, without white space around it.

    None equals a string of the data set, of whatever label and case, and no two are equal, so what
    was told apart still is. What cannot be invented becomes a label with digits that follow from
    the key, such as <GENDER-7f3a2c91>. All follow from the string, its label and `key`; the order
    does not matter, and other strings only where two would have got the same pseudonym, or where
    one would be what another is.
    """
    distinct_pairs = sorted({(string.strip(), label) for string, label in pairs})
    reserved = {string.casefold() for string, _ in distinct_pairs}
    result = {}
    for string, label in distinct_pairs:
        new = _invent_unused(string, label, reserved, key) or _tag(string, label, reserved, key)
        reserved.add(new.casefold())
        result[string, label] = new
    return result


def _invent_unused(string: str, label: str, reserved: set[str], key: str) -> str | None:
    """Return the first invention that is nobody's yet, if there is one."""
    for attempt in range(ATTEMPTS):
        new = surrogate_like(
            string, label, random.Random(_digest(key, label, string, str(attempt)))
        )
        if new is None:
            return None
        if new.casefold() not in reserved:
            return new
    return None


def _tag(string: str, label: str, reserved: set[str], key: str) -> str:
    """Return the label with the first digits of a hash, more of them where those are taken.

    Counting up would reveal the alphabetical order, and depend on which strings there are.
    """
    digest = _digest(key, "tag", label, string).hex()
    tags = (f"<{label}-{digest[:size]}>" for size in range(DIGITS, len(digest) + 1))
    return next(tag for tag in tags if tag.casefold() not in reserved)


def _digest(key: str, *fields: str) -> bytes:
    """Return the HMAC-SHA256 of `fields`, which nobody can foretell who does not know `key`."""
    message = "\x00".join(fields).encode("utf-8", "surrogatepass")
    return hmac.digest(key.encode(), message, hashlib.sha256)
