"""Strings that an answer may begin with: when it is settled which one stands there.

An answer that has begun with "Th" may still become "Thomas"; one that has begun with "Tz" will not,
and need not be drawn to its end where nothing else of it counts. White space that leads an answer
is no part of it. Case, white space and Unicode forms are left open, and behind a string one more
character: whether the word ends there is for others to say.
"""

import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from fedaudit.engine.generation.kv_cache import Integers
from fedaudit.pii.normalized_search import fold

UNFINISHED = "\ufffd"
"""What stands for the first bytes of a character whose last ones have not been drawn yet."""


class StopStrings:
    """Strings, and the bytes that each token of a vocabulary writes, by its number."""

    def __init__(self, strings: Collection[str], table: Sequence[bytes]) -> None:
        self._known = set(map(fold, strings))
        self._strings = sorted(self._known)
        self.table = table

    def open(self, prefix: bytes, *, spelling: bool = False) -> bool:
        """Say whether it may still change which of the strings an answer with `prefix` begins with.

        False is certain. True may be wrong where a character is unfinished, or while the answer is
        `spelling` a character byte by byte: SentencePiece's decoder shows none of these bytes
        unless all of them make characters.
        """
        text = fold(prefix.decode("utf-8", "replace").rstrip(UNFINISHED))
        if text in self._known or self._begins(text):
            return True
        # One more accent may come to stand before those that are there.
        bare = _without_accents(text)
        if bare != text and (bare in self._known or self._begins(bare)):
            return True
        return spelling and any(text[: end + 1] in self._known for end in range(len(text)))

    def _begins(self, text: str) -> bool:
        """Say whether one of the strings goes on behind `text`."""
        index = bisect_right(self._strings, text)
        return index < len(self._strings) and self._strings[index].startswith(text)


def _without_accents(text: str) -> str:
    """Return `text` without the accents on its last letter."""
    end = len(text)
    while end and unicodedata.combining(text[end - 1]):
        end -= 1
    return text[:end]


class StopState:
    """The text of each sample so far, while it is open."""

    def __init__(self, stop_strings: StopStrings) -> None:
        self._stop_strings = stop_strings
        self._said: dict[int, tuple[bytes, bool]] = {}
        self._known: dict[tuple[bytes, bool], bool] = {}

    def open(self, samples: Integers, tokens: Integers) -> npt.NDArray[np.bool_]:
        """Add one more token to each of `samples`; return which of them go on."""
        return np.array(
            [self._append_token(*pair) for pair in zip(samples, tokens, strict=True)], dtype=bool
        )

    def _append_token(self, sample: int, token: int) -> bool:
        last = self._stop_strings.table[token]
        before, spelling = self._said.get(sample, (b"", False))
        # What writes nothing is left out before decoding, so that it ends no run of bytes.
        now = before + last, len(last) == 1 or (spelling and not last)
        if now not in self._known:
            self._known[now] = self._stop_strings.open(now[0], spelling=now[1])
        self._said[sample] = now
        if not self._known[now]:
            del self._said[sample]
        return self._known[now]
