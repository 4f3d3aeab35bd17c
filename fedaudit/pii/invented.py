"""Inventing personal data that look like given ones: of their language, kind and form."""

import random
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from fedaudit.pii.checksums import (
    id_card_check_digit,
    is_id_card,
    is_luhn,
    luhn_check_digit,
)
from fedaudit.pii.dates import date_like, day
from fedaudit.pii.taxonomy import category

if TYPE_CHECKING:
    from faker import Faker

Maker = Callable[[str, random.Random], str]

_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
_TITLE = re.compile(r"(?:mr|mrs|ms|miss|dr|prof|sir|lady|judge)\b\.? +", re.IGNORECASE)
_IPV4 = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_MAC = re.compile(r"(?i)[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}")


def like(string: str, label: str, rng: random.Random) -> str | None:
    """Return invented personal data like `string`, drawn from `rng` alone; None if none can be.

    Names, addresses, employers and the like come from faker, in Chinese where the string has
    Chinese characters, else in English. Numbers keep their form, and check digits hold where they
    did. E-mail addresses are of reserved domains (RFC 2606), network addresses of private ones.
    """
    found = category(label)
    maker = (MAKERS.get(found.name) if found else None) or OTHERS.get(label)
    if maker is None:
        return number(string, rng) if any(char.isdigit() for char in string) else None
    return maker(string, rng)


@cache
def _faker(locale: str) -> "Faker":
    from faker import Faker

    return Faker(locale)


def _fake(string: str, rng: random.Random) -> "Faker":
    """Return faker in the language of `string`; what it says next depends on `rng` alone."""
    fake = _faker("zh_CN" if _HAN.search(string) else "en_GB")
    fake.seed_instance(rng.getrandbits(64))
    return fake


def name(string: str, rng: random.Random) -> str:
    """Return a name of as many parts, behind the same title."""
    fake = _fake(string, rng)
    if _HAN.search(string):
        return f"{fake.last_name()}{fake.first_name()}"
    title = found[0] if (found := _TITLE.match(string)) else ""
    given = max(0, min(3, len(string[len(title) :].split()) - 1))
    firsts = " ".join(fake.first_name() for _ in range(given))
    last = str(fake.last_name())
    new = f"{last}, {firsts}" if firsts and "," in string else f"{firsts} {last}".strip()
    return title + (new.upper() if string[len(title) :].isupper() else new)


def address(string: str, rng: random.Random) -> str:
    """Return an address; for a place alone, a place."""
    fake = _fake(string, rng)
    whole = any(char.isdigit() for char in string)
    if _HAN.search(string):
        place = f"{fake.city()}{fake.district()}" if len(string) > 4 else f"{fake.city()}"
        return f"{place}{fake.street_name()}{rng.randint(1, 199)}号" if whole else place
    place = str(fake.city())
    return f"{rng.randint(1, 199)} {fake.street_name()}, {place}" if whole else place


def phone(string: str, rng: random.Random) -> str:
    """Return a number of the same form: country code, first digit and separators stay."""
    if re.fullmatch(r"1[3-9]\d{9}", string):  # a mainland Chinese mobile number
        return f"1{rng.choice('35789')}{''.join(rng.choices('0123456789', k=9))}"
    code = re.match(r"\s*[+＋]\d{1,3}\D*\d|\D*\d", string)
    start = code.end() if code else 0
    return string[:start] + "".join(_digit(char, rng) for char in string[start:])


def email(_string: str, rng: random.Random) -> str:
    """Return an e-mail address that nobody can have."""
    user = _fake("", rng).user_name()
    return f"{user}@example.{rng.choice(('com', 'net', 'org'))}"


def number(string: str, rng: random.Random) -> str:
    """Return `string` with other digits and, of ASCII, other letters in the same places."""
    return "".join(_letter(_digit(char, rng), rng) for char in string)


def identity(string: str, rng: random.Random) -> str:
    """Return a number of an identity card; a Chinese one with a birth date and a check digit."""
    if not is_id_card(string):
        return number(string, rng)
    birth = "".join(f"{part:02}" for part in day(rng))
    body = f"{rng.choice(_PROVINCES)}0{rng.randint(1, 9)}0{rng.randint(1, 9)}{birth}"
    body += f"{rng.randint(1, 999):03}"
    return body + id_card_check_digit(body)


def account(string: str, rng: random.Random) -> str:
    """Return the number of a card or account; country or issuer, and the Luhn digit, stay."""
    places = [at for at, char in enumerate(string) if char.isascii() and char.isdigit()]
    digits = "".join(string[at] for at in places)
    if not is_luhn(digits):
        kept = 2 if re.match("[A-Z]{2}[0-9]{2}", string) else 0
        return string[:kept] + number(string[kept:], rng)
    body = digits[:4] + "".join(rng.choices("0123456789", k=len(digits) - 5))
    new = list(string)
    for at, digit in zip(places, body + luhn_check_digit(body), strict=True):
        new[at] = digit
    return "".join(new)


def online(string: str, rng: random.Random) -> str:
    """Return a private network address, a local MAC address, or a user name."""
    if _IPV4.fullmatch(string):
        return "10." + ".".join(str(rng.randint(1, 254)) for _ in range(3))
    if _MAC.fullmatch(string):
        return "02" + re.sub("[0-9A-Fa-f]", lambda _: rng.choice("0123456789abcdef"), string[2:])
    if ":" in string:
        return f"2001:db8::{rng.getrandbits(16):x}:{rng.getrandbits(16):x}"
    return str(_fake("", rng).user_name())


def age(string: str, rng: random.Random) -> str:
    """Return the same words with other numbers of years."""
    return re.sub(r"\d+", lambda _: str(rng.randint(18, 79)), string)


def company(string: str, rng: random.Random) -> str:
    """Return an employer."""
    return str(_fake(string, rng).company())


def job(string: str, rng: random.Random) -> str:
    """Return an occupation."""
    return str(_fake(string, rng).job())


def page(_string: str, rng: random.Random) -> str:
    """Return a web address that nobody can have."""
    return f"https://example.{rng.choice(('com', 'net', 'org'))}/{_fake('', rng).user_name()}"


def _digit(char: str, rng: random.Random) -> str:
    if not char.isdigit():
        return char
    return rng.choice("123456789" if char != "0" else "0123456789")


def _letter(char: str, rng: random.Random) -> str:
    if not (char.isascii() and char.isalpha()):
        return char
    return rng.choice("ABCDEFGHJKLMNPRSTUVWXYZ" if char.isupper() else "abcdefghjkmnprstuvwxyz")


_PROVINCES = ("11", "12", "31", "32", "33", "37", "42", "44", "51", "61")

MAKERS: Mapping[str, Maker] = {
    "Name": name,
    "Birthday": date_like,
    "Address": address,
    "Age": age,
    "Personal Phone Number": phone,
    "Identity Card Number": identity,
    "Occupation": job,
    "Work Place": company,
    "Financial Account": account,
    "E-mail Address": email,
    "Online Identifier": online,
}
"""What invents personal data of each minor category; numbers of others keep their form."""

OTHERS: Mapping[str, Maker] = {"DATE_TIME": date_like, "ORGANIZATION": company, "URL": page}
"""The same of labels outside the taxonomy."""
