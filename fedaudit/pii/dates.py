"""Inventing dates that are written like given ones, in English, Chinese and numbers."""

import calendar
import random
import re

_MONTHS = (*calendar.month_name[1:], *calendar.month_abbr[1:])
_PARTS = re.compile(
    r"(?P<whole>(?<!\d)\d{8}(?!\d))"
    r"|(?P<year>(?<!\d)\d{4}(?!\d))"
    r"|(?P<ordinal>(?<!\d)\d{1,2}(?=(?:st|nd|rd|th)\b))(?:st|nd|rd|th)"
    r"|(?P<month>(?<!\d)\d{1,2}(?=\s*月))"
    r"|(?P<day>(?<!\d)\d{1,2}(?=\s*[日号]))"
    r"|(?P<number>(?<!\d)\d{1,2}(?!\d))"
    rf"|(?P<name>\b(?:{'|'.join(_MONTHS)})\b)",
    re.IGNORECASE,
)


def date_like(string: str, rng: random.Random) -> str:
    """Return another date in the form of `string`; what is no part of a date stays.

    Days are at most 28, and of bare numbers, which may be days or months, at most 12.
    """
    named = any(found["name"] or found["month"] for found in _PARTS.finditer(string))

    def changed(found: re.Match[str]) -> str:
        year, month, date = day(rng)
        if found["whole"]:
            return f"{year}{month:02}{date:02}"
        if found["year"]:
            return str(year)
        if found["name"]:
            return _month(found["name"], month)
        if found["ordinal"]:
            return f"{date}{_suffix(date)}"
        is_day = found["day"] or (found["number"] and named)
        new = date if is_day else month
        return f"{new:02}" if found[0].startswith("0") else str(new)

    return _PARTS.sub(changed, string)


def day(rng: random.Random) -> tuple[int, int, int]:
    """Return year, month and day of a birth: people of 1940 to 2004, no 29th to 31st."""
    return rng.randint(1940, 2004), rng.randint(1, 12), rng.randint(1, 28)


def _month(written: str, month: int) -> str:
    """Return the name of `month` as long or short, and as large, as `written`."""
    names = calendar.month_name if written.title() in calendar.month_name else calendar.month_abbr
    new = names[month]
    return new.upper() if written.isupper() else new.lower() if written.islower() else new


def _suffix(number: int) -> str:
    if number in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
