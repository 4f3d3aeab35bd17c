"""Invented people, English and Chinese, with every personal detail known (made with faker)."""

import random
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import TYPE_CHECKING

from fedaudit.pii.checksums import id_card_check_digit, luhn_check_digit

if TYPE_CHECKING:
    from faker import Faker

LOCALES = {"en": "en_GB", "zh": "zh_CN"}

LABELS = {
    "name": "PERSON",
    "birthday": "BIRTHDAY",
    "address": "ADDRESS",
    "phone": "PHONE_NUMBER",
    "id": "ID_CARD",
    "email": "EMAIL_ADDRESS",
    "card": "BANK_CARD",
    "workplace": "WORKPLACE",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Someone who does not exist; each field is one kind of PII (see LABELS)."""

    name: str
    birthday: str
    address: str
    phone: str
    id: str
    email: str
    card: str
    workplace: str


@cache
def _faker(language: str) -> "Faker":
    from faker import Faker

    return Faker(LOCALES[language])


def invent(language: str, rng: random.Random) -> Person:
    """Return a person who speaks `language` ("en" or "zh"), drawn from `rng` alone."""
    fake = _faker(language)
    fake.seed_instance(rng.getrandbits(64))
    # Not faker's date_of_birth: that counts back from today, and records must not age.
    birth = date(rng.randint(1940, 2004), rng.randint(1, 12), rng.randint(1, 28))
    digits = _digits(rng, 15)
    card = "6222" + digits[:11]
    if language == "zh":
        # Region and serial number are drawn, the rest of the number follows from the birthday.
        identity = f"{rng.choice(_REGIONS)}{birth:%Y%m%d}{digits[11:14]}"
        return Person(
            name=fake.last_name() + "".join(rng.choices(_GIVEN_NAME_CHARS, k=2)),
            birthday=f"{birth.year}年{birth.month}月{birth.day}日",
            address=f"{fake.city()}{fake.district()}{fake.street_name()}{rng.randint(1, 199)}号",
            phone=f"1{rng.choice('35789')}{_digits(rng, 9)}",
            id=identity + id_card_check_digit(identity),
            email=f"{fake.user_name()}@{fake.free_email_domain()}",
            card=card + luhn_check_digit(card),
            workplace=fake.company(),
        )
    return Person(
        name=f"{fake.first_name()} {fake.last_name()}",
        birthday=f"{birth.day} {birth:%B} {birth.year}",
        address=f"{rng.randint(1, 199)} {fake.street_name()}, {fake.city()}",
        phone=f"0{rng.randint(11, 79)} {_digits(rng, 4)} {_digits(rng, 4)}",
        id=f"{rng.choice(_NINO)} {_digits(rng, 6)} {rng.choice('ABCD')}",
        email=f"{fake.user_name()}@{fake.free_email_domain()}",
        card=card + luhn_check_digit(card),
        workplace=fake.company(),
    )


WORDS = {
    **dict.fromkeys(("FIRST_NAME", "GIVEN_NAME", "MIDDLE_NAME"), "first_name"),
    **dict.fromkeys(("LAST_NAME", "FAMILY_NAME", "SURNAME"), "last_name"),
    **dict.fromkeys(("USERNAME", "USER_NAME", "ACCOUNT_NAME"), "user_name"),
}
"""The faker method for each kind of personal data that is a single word."""


def invent_word(label: str, language: str, rng: random.Random) -> str:
    """Return an invented word of a kind in WORDS, drawn from `rng` alone; "" for other kinds."""
    if label not in WORDS:
        return ""
    fake = _faker(language)
    fake.seed_instance(rng.getrandbits(64))
    return str(getattr(fake, WORDS[label])())


_GIVEN_NAME_CHARS = (
    "伟芳娜敏静丽强磊军洋勇艳杰娟涛明超秀霞平刚桂英华玉兰红梅云海峰林波宁欣怡佳宇浩然子轩梓涵"
    "雨泽思远晓东文博志国建新春燕雪琴凤莲翠荣福贵德成永康安民立仁义信忠孝礼智勤俭诚"
)
"""Characters of given names; two of them make one, as most people's do."""

_NINO = ("AB", "CE", "EH", "HK", "JN", "KM", "LP", "MR", "PS", "RT", "SW", "TX", "WZ", "YA")
"""Prefixes that British national insurance numbers do have."""

_REGIONS = ("110101", "310104", "330106", "440305", "510107", "420106", "320102", "610113")


def _digits(rng: random.Random, count: int) -> str:
    return "".join(rng.choices("0123456789", k=count))
