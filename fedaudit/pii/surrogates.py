"""Inventing personal data that look like given ones: of their language, kind and form."""

import random
import re
from collections.abc import Callable, Mapping
from functools import cache
from itertools import chain, repeat
from typing import TYPE_CHECKING

from fedaudit.api.scripts import has_han
from fedaudit.pii.checksums import (
    id_card_check_digit,
    is_id_card,
    is_luhn,
    luhn_check_digit,
)
from fedaudit.pii.surrogate_dates import birth_date, date_like
from fedaudit.pii.taxonomy import category

if TYPE_CHECKING:
    from faker import Faker

Maker = Callable[[str, random.Random], str | None]

_TITLE = re.compile(r"(?:mr|mrs|ms|miss|dr|prof|sir|lady|judge)\b\.? +", re.IGNORECASE)
_IPV4 = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_MAC = re.compile(r"(?i)[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}")
_IBAN = re.compile(r"[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){11,30}")
_NUMBER = re.compile(r"(?=[^0-9]*[0-9])[\s!-~‐‑–—]+")
_PHONE = re.compile(r"[+＋]?[0-9\s()./‐‑–—-]*[0-9](?:\s*(?:ext\.?|x|#|转)\s*[0-9]+)?")
_AGE = re.compile(
    r"(?P<before>(?:aged?|age of|时年|年龄)?\s*)[0-9]{1,3}"
    r"(?P<after>(?:\s*-?(?:years?|yrs?\.?)(?:[ -](?:old|of age))?|\s*y\.?/?o\.?|\s*周?岁)?)",
    re.IGNORECASE,
)
_IS_NUMBER = re.compile(r"(?:NUMBER|LICEN[CS]E_PLATE|VEHICLE_REGISTRATION)$", re.IGNORECASE)


def surrogate_like(string: str, label: str, rng: random.Random) -> str | None:
    """Return invented personal data like `string`, drawn from `rng` alone; None if none can be.

    Names, addresses, employers and the like come from faker, in Chinese where the string has
    Chinese characters, else in English. Numbers keep their form, and check digits hold where they
    did. E-mail addresses are of reserved domains (RFC 2606), network addresses of private ones.
    What keeps a form is made only where the whole string has it: words beside a number would stay.
    """
    pii_category = category(label)
    maker = (MAKERS.get(pii_category.name) if pii_category else None) or OTHER_MAKERS.get(label)
    if maker is None and _IS_NUMBER.search(label):
        maker = number
    return maker(string, rng) if maker else None


@cache
def _faker(locale: str) -> "Faker":
    from faker import Faker

    return Faker(locale)


def _fake(string: str, rng: random.Random) -> "Faker":
    """Return faker in the language of `string`; what it says next depends on `rng` alone."""
    fake = _faker("zh_CN" if has_han(string) else "en_GB")
    fake.seed_instance(rng.getrandbits(64))
    return fake


def name(string: str, rng: random.Random) -> str | None:
    """Return a name of as many parts, none of them the same, behind the same title."""
    title = match[0] if (match := _TITLE.match(string)) else ""
    old = string[len(title) :]
    new = _anew(old, lambda: _name(old, rng))
    return new and title + (new.upper() if old.isupper() else new)


def _name(old: str, rng: random.Random) -> str:
    fake = _fake(old, rng)
    if has_han(old):
        return f"{fake.last_name()}{fake.first_name()}"
    firsts = " ".join(fake.first_name() for _ in range(max(0, min(3, len(old.split()) - 1))))
    last = str(fake.last_name())
    return f"{last}, {firsts}" if firsts and "," in old else f"{firsts} {last}".strip()


def _anew(old: str, make: Callable[[], str]) -> str | None:
    """Return the first made string that shares no word with `old`; None after 20 that do."""
    return next((new for _ in range(20) if not _words(new := make()) & _words(old)), None)


def _words(text: str) -> set[str]:
    """Return the runs of letters in a text, whatever their case."""
    return set(re.findall(r"[^\W\d_]{2,}", text.casefold()))


def address(string: str, rng: random.Random) -> str:
    """Return an address; for a place alone, a place."""
    fake = _fake(string, rng)
    has_number = any(char.isdigit() for char in string)
    if has_han(string):
        city = f"{fake.city()}{fake.district()}" if len(string) > 4 else f"{fake.city()}"
        return f"{city}{fake.street_name()}{rng.randint(1, 199)}号" if has_number else city
    city = str(fake.city())
    return f"{rng.randint(1, 199)} {fake.street_name()}, {city}" if has_number else city


def phone(string: str, rng: random.Random) -> str | None:
    """Return a number of the same form: country code, first digit and separators stay."""
    if not _PHONE.fullmatch(string):
        return None
    if re.fullmatch(r"1[3-9]\d{9}", string):  # a mainland Chinese mobile number
        return f"1{rng.choice('35789')}{''.join(rng.choices('0123456789', k=9))}"
    code = re.match(r"[+＋]\d{1,3}\D*\d|\D*\d", string)
    start = code.end() if code else 0
    return string[:start] + _digits(string[start:], rng)


def email(_string: str, rng: random.Random) -> str:
    """Return an e-mail address that nobody can have."""
    user = _fake("", rng).user_name()
    return f"{user}@example.{rng.choice(('com', 'net', 'org'))}"


def number(string: str, rng: random.Random) -> str | None:
    """Return `string` with other digits and letters in the same places, if ASCII has them all."""
    if not _NUMBER.fullmatch(string):
        return None
    return _anew(string, lambda: "".join(_letter(char, rng) for char in _digits(string, rng)))


def identity(string: str, rng: random.Random) -> str | None:
    """Return a number of an identity card; a Chinese one with a birth date and a check digit."""
    if not is_id_card(string):
        return number(string, rng)
    birth = "".join(f"{value:02}" for value in birth_date(rng))
    body = f"{rng.choice(_PROVINCES)}0{rng.randint(1, 9)}0{rng.randint(1, 9)}{birth}"
    body += f"{rng.randint(1, 999):03}"
    return body + id_card_check_digit(body)


def account(string: str, rng: random.Random) -> str | None:
    """Return the number of a card or account; country or issuer, and the Luhn digit, stay."""
    places = [i for i, char in enumerate(string) if char.isascii() and char.isdigit()]
    digits = "".join(string[i] for i in places)
    prefix_length = 2 if _IBAN.fullmatch(string) else 0
    new = number(string[prefix_length:], rng)
    if new is None or prefix_length or len(digits) < 12 or not is_luhn(digits) or _words(string):
        return new and string[:prefix_length] + new
    body = digits[:4] + "".join(rng.choices("0123456789", k=len(digits) - 5))
    card = list(string)
    for position, digit in zip(places, body + luhn_check_digit(body), strict=True):
        card[position] = digit
    return "".join(card)


def online(string: str, rng: random.Random) -> str:
    """Return a private network address, a local MAC address, or a user name."""
    if _IPV4.fullmatch(string):
        return "10." + ".".join(str(rng.randint(1, 254)) for _ in range(3))
    if _MAC.fullmatch(string):
        return "02" + re.sub("[0-9A-Fa-f]", lambda _: rng.choice("0123456789abcdef"), string[2:])
    if ":" in string:
        return f"2001:db8::{rng.getrandbits(16):x}:{rng.getrandbits(16):x}"
    return str(_fake("", rng).user_name())


def age(string: str, rng: random.Random) -> str | None:
    """Return the same words with another number of years."""
    match = _AGE.fullmatch(string)
    return f"{match['before']}{rng.randint(18, 79)}{match['after']}" if match else None


def company(string: str, rng: random.Random) -> str:
    """Return an employer."""
    return str(_fake(string, rng).company())


def job(string: str, rng: random.Random) -> str:
    """Return an occupation."""
    return str(_fake(string, rng).job())


def page(_string: str, rng: random.Random) -> str:
    """Return a web address that nobody can have."""
    return f"https://example.{rng.choice(('com', 'net', 'org'))}/{_fake('', rng).user_name()}"


def _digits(string: str, rng: random.Random) -> str:
    """Return `string` with any digits in the places of its own, the first of them no zero."""
    digits = (rng.choice("123456789" if first else "0123456789") for first in chain([1], repeat(0)))
    return re.sub("[0-9]", lambda _: next(digits), string)


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
    "Passport Number": number,
    "Driving Licence Number": number,
    "Social Insurance Number": number,
    "Other Official Number": number,
    "Occupation": job,
    "Work Place": company,
    "Financial Account": account,
    "E-mail Address": email,
    "Online Identifier": online,
}
"""What invents personal data of each minor category; of others only numbers can be made."""

OTHER_MAKERS: Mapping[str, Maker] = {"DATE_TIME": date_like, "ORGANIZATION": company, "URL": page}
"""The same of labels outside the taxonomy."""
