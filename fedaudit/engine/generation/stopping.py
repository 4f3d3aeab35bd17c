"""Early stopping, once it is settled which of the given strings a completion begins with.

A completion that begins with "Th" may still become "Thomas"; one that begins with "Tz" cannot, and
need not be continued if nothing but such strings counts. Leading white space is ignored, and so are
differences of case, white space and Unicode form. After a complete string one more character is
drawn, so that the caller can see whether the word ends there.
"""

import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from fedaudit.engine.generation.kv_cache import Integers
from fedaudit.pii.normalized_search import fold

UNFINISHED = "\ufffd"
"""The decoder's replacement for the first bytes of a character that is not complete yet."""


class StopStrings:
    """The strings, and the bytes of each token by token id."""

    def __init__(self, strings: Collection[str], table: Sequence[bytes]) -> None:
        self._known = set(map(fold, strings))
        self._strings = sorted(self._known)
        self.table = table

    def open(self, prefix: bytes, *, spelling: bool = False) -> bool:
        """Say whether more tokens may change which string a completion with `prefix` begins with.

        False is certain. True may be wrong if the last character is incomplete, or if the
        completion is `spelling` a character byte by byte: SentencePiece's decoder shows none of
        these bytes unless all of them form characters.
        """
        text = fold(prefix.decode("utf-8", "replace").rstrip(UNFINISHED))
        if text in self._known or self._begins(text):
            return True
        # Normalisation may place a further accent before those already there.
        bare = _without_accents(text)
        if bare != text and (bare in self._known or self._begins(bare)):
            return True
        return spelling and any(text[: end + 1] in self._known for end in range(len(text)))

    def _begins(self, text: str) -> bool:
        """Say whether `text` is a proper prefix of one of the strings."""
        index = bisect_right(self._strings, text)
        return index < len(self._strings) and self._strings[index].startswith(text)


def _without_accents(text: str) -> str:
    """Return `text` without the accents on its last letter."""
    end = len(text)
    while end and unicodedata.combining(text[end - 1]):
        end -= 1
    return text[:end]


class StopState:
    """The bytes of each sample so far, while further tokens matter."""

    def __init__(self, stop_strings: StopStrings) -> None:
        self._stop_strings = stop_strings
        self._said: dict[int, tuple[bytes, bool]] = {}
        self._known: dict[tuple[bytes, bool], bool] = {}

    def open(self, samples: Integers, tokens: Integers) -> npt.NDArray[np.bool_]:
        """Append a token to each of `samples`; return for each whether it continues."""
        return np.array(
            [self._append_token(*pair) for pair in zip(samples, tokens, strict=True)], dtype=bool
        )

    def _append_token(self, sample: int, token: int) -> bool:
        last = self._stop_strings.table[token]
        before, spelling = self._said.get(sample, (b"", False))
        # Tokens that write nothing are removed before decoding, so they end no run of bytes.
        now = before + last, len(last) == 1 or (spelling and not last)
        if now not in self._known:
            self._known[now] = self._stop_strings.open(now[0], spelling=now[1])
        self._said[sample] = now
        if not self._known[now]:
            del self._said[sample]
        return self._known[now]
