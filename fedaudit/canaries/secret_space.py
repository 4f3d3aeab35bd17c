"""Every secret of one kind, each with a number: a space can be counted, listed and drawn from."""

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

from fedaudit.pii.checksums import id_card_check_digit, luhn_check_digit

CHECKS = {"luhn": luhn_check_digit, "id_card": id_card_check_digit}
"""How the last character of a number follows from those before it, by name."""
DIGITS = "0123456789"
LONGEST = 200
"""Characters of a pattern, and of a word, at most."""
MOST_WORDS = 1_000_000

_PIECE = re.compile(r"\[([^\[\]]+)\]|([^\[\]])")


@dataclass(frozen=True)
class SecretSpace:
    """The secrets that a pattern spells, or the words of a list.

    In a pattern `#` is any digit, `[abc]` one of these characters, and every other character
    itself; with a `check` the check digit follows, which spaces between the digits do not change.
    Raises ValueError for an invalid space, and for one of fewer than two secrets.
    """

    pattern: str = ""
    check: str = ""
    words: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.pattern) == bool(self.words):
            raise ValueError("a space has either a pattern or words")
        if self.words:
            _check_words(self.words, self.check)
        else:
            _check_pattern(self.pattern, self.check)
        if self.size < 2:
            raise ValueError("a space has two secrets at least")

    @cached_property
    def _places(self) -> tuple[str, ...]:
        """What may stand at each place of the pattern."""
        return _places(self.pattern)

    @cached_property
    def size(self) -> int:
        """How many secrets there are."""
        return len(self.words) or math.prod(map(len, self._places))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    def secret(self, number: int) -> str:
        """Return the secret of a number, from 0 to the size less one."""
        if not 0 <= number < self.size:
            raise IndexError(f"there is no secret {number} of {self.size}")
        if self.words:
            return self.words[number]
        chars = []
        for alphabet in reversed(self._places):
            number, index = divmod(number, len(alphabet))
            chars.append(alphabet[index])
        return self._add_check_digit("".join(reversed(chars)))

    def __contains__(self, secret: str) -> bool:
        if self.words:
            return secret in self._numbers
        body = secret[: len(self._places)]
        fits = len(body) == len(self._places) and all(
            char in alphabet for char, alphabet in zip(body, self._places, strict=True)
        )
        return fits and self._add_check_digit(body) == secret

    def __iter__(self) -> Iterator[str]:
        return map(self.secret, range(self.size))

    def sample(self, count: int, rng: Random, without: Collection[str] = ()) -> list[str]:
        """Return different secrets that are none of `without`, each choice equally likely.

        Raises ValueError where there are not as many.
        """
        excluded_secrets = {secret for secret in without if secret in self}
        if count > self.size - len(excluded_secrets):
            raise ValueError(
                f"{self.size:,} secrets are too few for {count + len(excluded_secrets):,}"
            )
        if 2 * (count + len(excluded_secrets)) > self.size:
            return rng.sample([secret for secret in self if secret not in excluded_secrets], count)
        secrets: dict[str, None] = {}
        while len(secrets) < count:
            if (secret := self.secret(rng.randrange(self.size))) not in excluded_secrets:
                secrets.setdefault(secret)
        return list(secrets)

    def _add_check_digit(self, body: str) -> str:
        return body + CHECKS[self.check](body.replace(" ", "")) if self.check else body


def _places(pattern: str) -> tuple[str, ...]:
    return tuple(
        DIGITS if char == "#" else choices or char for choices, char in _PIECE.findall(pattern)
    )


def _check_pattern(pattern: str, check: str) -> None:
    if len(pattern) > LONGEST or _PIECE.sub("", pattern) or not pattern.isprintable():
        raise ValueError("a pattern is a short line in which every [ has a ] behind it")
    places = _places(pattern)
    if any(len(set(alphabet)) < len(alphabet) for alphabet in places):
        raise ValueError("a pattern names no character twice within [ and ]")
    if check and check not in CHECKS:
        raise ValueError(f"a check is one of {', '.join(CHECKS)}")
    digits = [alphabet for alphabet in places if alphabet != " "]
    if check and not all(alphabet.isascii() and alphabet.isdigit() for alphabet in digits):
        raise ValueError("a check digit follows from digits alone")
    if check == "id_card" and len(digits) != 17:
        raise ValueError("the check digit of an identity card follows from 17 digits")


def _check_words(words: Sequence[str], check: str) -> None:
    if check or len(words) > MOST_WORDS or len(set(words)) < len(words):
        raise ValueError(f"words are different, {MOST_WORDS:,} at most, and have no check")
    if not all(0 < len(word) <= LONGEST and word.isprintable() for word in words):
        raise ValueError(f"a word has 1 to {LONGEST} printable characters")
