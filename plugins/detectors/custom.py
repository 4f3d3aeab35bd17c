"""Kinds of personal data of one's own: a name, a regular expression, and a check of its finds."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import regex

from fedaudit.api import InputError, PiiSpan, UsageError, unknown_name_error
from fedaudit.pii.checksums import is_id_card, is_luhn, is_mod97

from .china import is_birth_date

LABEL = regex.compile(r"[A-Z][A-Z0-9_]*")
_VERHOEFF = (
    *("0123456789", "1234067895", "2340178956", "3401289567", "4012395678"),
    *("5987604321", "6598710432", "7659821043", "8765932104", "9876543210"),
)
_SHIFTS = (
    *("0123456789", "1576283094", "5803796142", "8916043527", "9453126870"),
    *("4286573901", "2793806415", "7046913258"),
)


class CustomPattern(NamedTuple):
    """A kind of personal data that the user describes."""

    label: str
    pattern: "regex.Pattern[str]"
    check: Callable[[str], bool] | None

    def find(self, text: str) -> Iterator[PiiSpan]:
        """Yield what the pattern finds and its check accepts: its first group, or all of it."""
        for match in self.pattern.finditer(text):
            start, end = match.span(1 if self.pattern.groups and match.group(1) else 0)
            if start < end and (self.check is None or self.check(_bare(text[start:end]))):
                yield PiiSpan(start, end, self.label)


def is_mod11(number: str) -> bool:
    """Tell whether the weighted sum of the digits is a multiple of 11, as in an NHS number."""
    if not (number.isascii() and number.isdigit()):
        return False
    return sum(i * int(digit) for i, digit in enumerate(reversed(number), start=1)) % 11 == 0


def is_verhoeff(number: str) -> bool:
    """Tell whether the Verhoeff digit of a number holds, as in an Aadhaar."""
    check = 0
    if not (number.isascii() and number.isdigit()):
        return False
    for i, digit in enumerate(reversed(number)):
        check = int(_VERHOEFF[check][int(_SHIFTS[i % 8][int(digit)])])
    return check == 0


CHECKS: Mapping[str, Callable[[str], bool]] = {
    "luhn": is_luhn,
    "mod97": is_mod97,
    "mod11": is_mod11,
    "verhoeff": is_verhoeff,
    "id_card": is_id_card,
    "date": is_birth_date,
}
"""What a pattern's finds may be checked by, without the marks between letters and digits."""


def _bare(text: str) -> str:
    return "".join(filter(str.isalnum, text)).upper()


@cache
def custom_patterns(given: tuple[str, ...]) -> tuple[CustomPattern, ...]:
    """Return the patterns that "NAME=REGEX", "NAME:CHECK=REGEX" and "@FILE" spell.

    Raises:
        UsageError: for what is no such pattern.
        InputError: for a file that cannot be read.
    """
    return tuple(_parse(text) for text in _lines(given))


def _lines(given: Sequence[str]) -> Iterator[str]:
    for text in given:
        if not text.startswith("@"):
            yield text
            continue
        try:
            lines = Path(text[1:]).read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"The patterns in {text[1:]} cannot be read.") from error
        yield from (line for line in lines if line.strip() and not line.startswith("#"))


def _parse(text: str) -> CustomPattern:
    name, equals, expression = text.partition("=")
    label, _, check = name.strip().partition(":")
    if not equals or not expression or not LABEL.fullmatch(label):
        raise UsageError(
            "A pattern is NAME=REGEX or NAME:CHECK=REGEX with a NAME like CASE_NUMBER, not "
            f"{text!r}."
        )
    if check and check not in CHECKS:
        raise unknown_name_error("check of a pattern", check, CHECKS)
    try:
        compiled = regex.compile(expression)
    except regex.error as error:
        raise UsageError(
            f"The pattern of {label} is not a regular expression ({error})."
        ) from error
    return CustomPattern(label, compiled, CHECKS.get(check))
