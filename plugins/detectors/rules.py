"""What a rule for personal data is, how Presidio runs it, and the rules of no country."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .scripts import ANY

if TYPE_CHECKING:
    from presidio_analyzer import PatternRecognizer


def accept_match(_text: str) -> bool | None:
    """Leave a match as sure as its pattern is."""
    return None


BREAK = r"(?:[ .\-\u2013]|[ ]?\r?\n[ ]?)"
"""What may stand between the groups of a number that proves itself: `fold` has made one of each
kind of space and hyphen, but not of en dashes, which stand in ranges."""
COLUMNS = r"[ \t]{1,4}"
"""What stands between the groups of a number, and between the columns of a table as well."""
IN_COLUMNS = re.compile(r"\t|  ")
_FEWEST_DIGITS, _MOST_DIGITS = 7, 15
_DATE = re.compile(r"\d{1,2}[./-]\d{1,2}[./-](?:\d{4}|\d{2})|\d{4}[./-]\d{1,2}[./-]\d{1,2}")


def check_telephone(text: str) -> bool | None:
    """Refuse what is too short or too long for a telephone number, and what is a date."""
    digits = sum(map(str.isdigit, text))
    fits = _FEWEST_DIGITS <= digits <= _MOST_DIGITS and not _DATE.fullmatch(text)
    return None if fits else False


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionRule:
    """Regular expressions with their scores, a check of what they match, and words before it.

    Written with ASCII lookarounds: between a digit and a Han character no word ends.
    """

    label: str
    patterns: tuple[tuple[str, float], ...]
    check: Callable[[str], bool | None] = accept_match
    """True makes a match certain, False drops it, None leaves it its pattern's score."""
    context: tuple[str, ...] = ()


EMAIL_ADDRESS = DetectionRule(
    label="EMAIL_ADDRESS",
    patterns=(
        (
            r"(?<![\p{Latin}0-9_])"
            r"[\p{Latin}0-9_](?:[\p{Latin}0-9_.+%&'-]{0,62}[\p{Latin}0-9_+-])?"
            r"@(?:[\p{Latin}0-9](?:[\p{Latin}0-9-]{0,61}[\p{Latin}0-9])?\.){1,8}"
            r"(?:xn--[a-z0-9-]{2,59}|\p{Latin}{2,24})(?![\p{Latin}0-9])",
            1.0,
        ),
    ),
)

TELEPHONE = DetectionRule(
    label="PHONE_NUMBER",
    patterns=(
        # In groups, as numbers are written; invented ones are in no numbering plan.
        (
            r"(?<![0-9A-Za-z_+.-])(?:\+\d{1,3}[ -]?)?\(?0?\d{2,4}\)?[ -]\d{3,4}[ -]?\d{3,4}"
            r"(?![0-9A-Za-z_]|[.-]\d)",
            0.2,
        ),
        # In groups of two, as in much of Europe, with any marks between them.
        (
            r"(?<![0-9A-Za-z_+.-])(?:(?:\+|00)\d{1,3}[ ./-]?)?\(?\d{1,5}\)?"
            r"(?:[ ]?[ ./-][ ]?\d{2,4}){2,6}(?:[ ./-]\d)?(?![0-9A-Za-z_]|[.-]\d)",
            0.1,
        ),
        (r"(?<![0-9A-Za-z_.-])(?:\+|00?)\d{7,14}(?![0-9A-Za-z_]|[.-]\d)", 0.1),
        # In two groups of any length; without a first 0 it must be long, and not begin with a year.
        (
            r"(?<![0-9A-Za-z_+.-])(?<!\d[/ ])(?:\(?0\d{1,5}\)?[ ]?[ ./-][ ]?\d{3,9}"
            r"|(?!(?:19|20)\d\d\D)(?=(?:\D?\d){9})\d{3,6}[ ]?[./-][ ]?\d{4,8})"
            r"(?![0-9A-Za-z_]|[./-]\d)",
            0.1,
        ),
    ),
    check=check_telephone,
    context=(
        *(
            "telefon",
            "fon",
            "téléphone",
            "tél",
            "teléfono",
            "telefono",
            "telefone",
            "telefoon",
            "tlf",
        ),
        *("mobil", "móvil", "handy", "portable", "cellulare", "whatsapp", "ring", "sms"),
        *("phone", "telephone", "cellphone", "mobile", "cell", "tel", "fax", "call", "called"),
        *("reached", "电话", "手机", "联系", "致电", "传真", "座机"),
    ),
)


def recognizer(rule: DetectionRule) -> "PatternRecognizer":
    """Return the Presidio recognizer that applies `rule` to texts of any language."""
    from presidio_analyzer import Pattern, PatternRecognizer

    class Checked(PatternRecognizer):
        """A pattern recognizer whose matches are checked by its rule."""

        def validate_result(self, pattern_text: str) -> bool | None:
            return rule.check(pattern_text)

    return Checked(
        supported_entity=rule.label,
        name=f"Rule {rule.label}",
        supported_language=ANY,
        patterns=[Pattern(rule.label, regex, score) for regex, score in rule.patterns],
        context=list(rule.context),
    )
