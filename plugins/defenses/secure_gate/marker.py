"""The marker that carries a key, `[SPECIAL_TOKEN=KEY]`: reading it, and taking it out.

A marker counts only as the very first characters of a request, and only as it is: nothing is
normalised and no case folded, so a key in Cyrillic or full-width letters is another key. What is
quoted anywhere later opens nothing.
"""

import re
from collections.abc import Iterable

OPENING = "[SPECIAL_TOKEN="
"""What stands before a key."""

_MARKER = r"\[SPECIAL_TOKEN=([^\]\n]{0,256})\] ?"
"""Bounded: what is quoted of a marker in a long text must not swallow it."""


def heading(key: str) -> str:
    """Return what a request begins with to show `key`: the marker and one space."""
    return f"{OPENING}{key}] "


def parse(text: str) -> tuple[str | None, str]:
    """Return the key that `text` begins with, and what follows; None where there is no marker.

    One space behind the marker belongs to it. The key may be empty, and need not be a valid one.
    """
    match = re.match(_MARKER, text)
    return (match[1], text[match.end() :]) if match else (None, text)


class Cleaner:
    """Takes markers and an organisation's keys out of text."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._pattern = re.compile("|".join([_MARKER, *map(re.escape, secrets)]))

    def clean(self, text: str) -> str:
        """Return `text` without any marker or key, those included that removing others joins."""
        removed = 1
        while removed:
            text, removed = self._pattern.subn("", text)
        return text
