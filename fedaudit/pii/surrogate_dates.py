"""Inventing dates that are written like given ones, in English, Chinese and numbers."""

import calendar
import random
import re

_MONTHS = (*calendar.month_name[1:], "Sept", *calendar.month_abbr[1:])
_TOKEN = re.compile(
    r"(?P<whole>(?<![0-9])[0-9]{8}(?![0-9]))"
    r"|(?P<year>(?<![0-9])[0-9]{4}(?![0-9]))"
    r"|(?P<ordinal>(?<![0-9])[0-9]{1,2}(?:st|nd|rd|th)(?![a-z]))"
    r"|(?P<short>(?<=['’])[0-9]{2}(?![0-9])|(?<![0-9])[0-9]{2}(?=\s?年))"
    r"|(?P<month>(?<![0-9])[0-9]{1,2}(?=\s?月))"
    r"|(?P<day>(?<![0-9])[0-9]{1,2}(?=\s?[日号]))"
    r"|(?P<number>(?<![0-9])[0-9]{1,2}(?![0-9]))"
    rf"|(?P<name>(?<![a-z])(?:{'|'.join(_MONTHS)})(?![a-z]))"
    r"|(?P<between>(?<=[0-9])\s?[年月日号]|(?:\b(?:of|the)\b|['’](?=[0-9])|[\s,./–—-])+)",
    re.IGNORECASE,
)

Token = tuple[str, str]
"""What a piece of a date is, by the name of its group, and how it is written."""


def date_like(string: str, rng: random.Random) -> str | None:
    """Return another date in the form of `string`; None where that is more or less than a date.

    Days are at most 28, and of bare numbers, which may be days or months, at most 12. Two digits
    are a year behind an apostrophe, where they are the last of three parts, or above 31.
    """
    tokens = _tokens(string)
    if all(kind == "between" for kind, _ in tokens):
        return None
    tokens = _with_years(tokens)
    named = any(kind in ("name", "month") for kind, _ in tokens)
    padded = _has_leading_zeros(
        [text for kind, text in tokens if kind in ("number", "month", "day")], named
    )
    tokens = [("day" if named and kind == "number" else kind, text) for kind, text in tokens]
    return "".join(_replace_piece(kind, text, padded, rng) for kind, text in tokens)


def is_date(string: str) -> bool:
    """Tell whether `string` is a date of the calendar and nothing else.

    Days are at most as many as a named month has, months at most 12; of bare numbers, which may be
    days or months, none is above 31 and, of two, not both above 12.
    """
    tokens = _tokens(string)
    if all(kind == "between" for kind, _ in tokens):
        return False
    if not any(kind == "whole" for kind, _ in tokens):
        return _in_calendar(_with_years(tokens))
    text = next(text for kind, text in tokens if kind == "whole")
    return _in_month(int(text[6:]), int(text[4:6]), int(text[:4]))


def _in_calendar(tokens: list[Token]) -> bool:
    by_kind: dict[str, list[str]] = {}
    for kind, text in tokens:
        by_kind.setdefault(kind, []).append(text)
    months = [_number_of(name) for name in by_kind.get("name", ())] + [
        int(m) for m in by_kind.get("month", ())
    ]
    days = [
        int(re.sub("[a-z]", "", d.lower())) for k in ("day", "ordinal") for d in by_kind.get(k, ())
    ]
    bare = [int(number) for number in by_kind.get("number", ())]
    year = int(by_kind["year"][0]) if "year" in by_kind else 2000
    if len([*by_kind.get("year", ()), *by_kind.get("short", ())]) > 1:
        return False
    if months:
        return len(months) == 1 and all(_in_month(d, months[0], year) for d in (*days, *bare))
    if len(bare) == 2:
        return any(_in_month(a, b, year) for a, b in (bare, bare[::-1]))
    return len(bare) < 2 and all(1 <= d <= 31 for d in (*days, *bare))


def _in_month(date: int, month: int, year: int) -> bool:
    if not (1 <= month <= 12 and 1 <= year <= 9999):
        return False
    return 1 <= date <= calendar.monthrange(year, month)[1]


def _number_of(name: str) -> int:
    """Return the number of the month that is written so."""
    return 1 + [month[:3] for month in calendar.month_name[1:]].index(name.title()[:3])


def birth_date(rng: random.Random) -> tuple[int, int, int]:
    """Return year, month and day of a birth: people of 1940 to 2004, no 29th to 31st."""
    return rng.randint(1940, 2004), rng.randint(1, 12), rng.randint(1, 28)


def _tokens(string: str) -> list[Token]:
    """Return the pieces of a date; none where anything is left over."""
    tokens, position = [], 0
    while position < len(string):
        match = _TOKEN.match(string, position)
        if match is None or match.lastgroup is None:
            return []
        tokens.append((match.lastgroup, match[0]))
        position = match.end()
    return tokens


def _with_years(tokens: list[Token]) -> list[Token]:
    """Return `tokens` with the bare numbers that are two-digit years named as such."""
    tokens = [
        ("short" if kind == "number" and int(text) > 31 else kind, text) for kind, text in tokens
    ]
    places = [i for i, (kind, _) in enumerate(tokens) if kind != "between"]
    last = places[-1]
    without = not any(kind in ("whole", "year", "short") for kind, _ in tokens)
    if without and len(places) >= 3 and re.fullmatch("[0-9]{2}", tokens[last][1]):
        tokens[last] = ("short", tokens[last][1])
    return tokens


def _has_leading_zeros(numbers: list[str], named: bool) -> bool:
    """Tell whether days and months below 10 are written with a zero.

    Beside a month's name 25 says nothing of it; among numbers alone, two digits throughout do.
    """
    if any(number.startswith("0") for number in numbers):
        return True
    return not named and all(len(number) == 2 for number in numbers)


def _replace_piece(kind: str, text: str, padded: bool, rng: random.Random) -> str:
    """Return another piece of a date in the place of one."""
    year, month, date = birth_date(rng)
    if kind == "between":
        return text
    if kind == "name":
        return _month(text, month)
    if kind == "ordinal":
        return f"{date}{_suffix(date).upper() if text.isupper() else _suffix(date)}"
    if kind in ("whole", "year", "short"):
        return {"whole": f"{year}{month:02}{date:02}", "year": str(year)}.get(
            kind, f"{year % 100:02}"
        )
    new = date if kind == "day" else month
    return f"{new:02}" if padded else str(new)


def _month(written: str, month: int) -> str:
    """Return the name of `month` as long or short, and as large, as `written`."""
    names = calendar.month_name if written.title() in calendar.month_name else calendar.month_abbr
    new = names[month]
    return new.upper() if written.isupper() else new.lower() if written.islower() else new


def _suffix(number: int) -> str:
    if number in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
