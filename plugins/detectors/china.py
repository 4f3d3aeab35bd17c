"""The numbers of mainland China that Presidio has no recognizer for, and bank cards of anywhere."""

import re
from datetime import date

from fedaudit.pii.checksums import is_id_card, is_luhn

from .rules import BREAK, COLUMNS, IN_COLUMNS, TELEPHONE, DetectionRule

_PROVINCES = "1[1-5]|2[1-3]|3[1-7]|4[1-6]|5[0-4]|6[1-5]"
_SCHEMES = re.compile(
    r"62\d{14,17}"  # UnionPay
    r"|4\d{15}(?:\d{3})?"  # Visa
    r"|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}"  # Mastercard
    r"|3[47]\d{13}"  # American Express
    r"|3(?:0[0-5]|[68]\d)\d{11}"  # Diners Club
    r"|(?:6011|65\d\d|64[4-9]\d|35\d\d)\d{12}"  # Discover, JCB
)
_ANY = f"(?:{BREAK}|{COLUMNS})"
_SEPARATORS = str.maketrans("×ХхΧχⅩⅹ", "XXXXXXX", " -\u2013.\r\n\t")


def is_birth_date(digits: str) -> bool:
    """Tell whether YYYYMMDD is a day of 1900 to 2099; no clock is asked, so the answer stays."""
    try:
        return 1900 <= date.fromisoformat(digits).year < 2100
    except ValueError:
        return False


def check_id_card(text: str) -> bool | None:
    """Check an identity number: 18 characters prove themselves, the old 15 digits only may be."""
    number = text.translate(_SEPARATORS)
    if len(number) == 15:
        return None if is_birth_date("19" + number[6:12]) else False
    return is_id_card(number) and is_birth_date(number[6:14])


def check_bank_card(text: str) -> bool | None:
    """Check a card number: Luhn holds, and a card scheme's prefix makes it certain.

    Four columns of a table may be a card number by chance, so there a word for a card is needed.
    """
    number = text.translate(_SEPARATORS)
    if not is_luhn(number) or check_id_card(number):
        return False
    if _SCHEMES.fullmatch(number):
        return None if IN_COLUMNS.search(text) else True
    return None if len(number) >= 16 else False


ID_CARD = DetectionRule(
    label="ID_CARD",
    patterns=(
        (
            rf"(?<![0-9A-Za-z])[1-9]\d{{5}}{_ANY}?[12]\d{{3}}{_ANY}?\d{{4}}{_ANY}?\d{{3}}"
            r"[0-9Xx×ХхΧχⅩⅹ](?![0-9A-Za-z])",
            1.0,
        ),
        (rf"(?<![0-9A-Za-z])(?:{_PROVINCES})\d{{13}}(?![0-9A-Za-z])", 0.2),
    ),
    check=check_id_card,
    context=("身份证", "身分证", "证件", "公民身份", "id card", "identity", "id number", "id no"),
)

PHONE_NUMBER = DetectionRule(
    label="PHONE_NUMBER",
    patterns=(
        (
            r"(?<![0-9A-Za-z_+])(?<!\d[.-])(?:(?:\+|00)?86[ -]?)?"
            r"1[3-9]\d([ -]?)\d{4}\1\d{4}(?![0-9A-Za-z_]|\.\d)",
            0.75,
        ),
    ),
    context=TELEPHONE.context,
)

BANK_CARD = DetectionRule(
    label="BANK_CARD",
    patterns=(
        (r"(?<![0-9A-Za-z])\d{14,19}(?![0-9A-Za-z])", 0.2),
        (
            rf"(?<![0-9A-Za-z])(?<!\d[ .\-\u2013])\d{{4}}{BREAK}"
            rf"(?:\d{{4}}{BREAK}\d{{4}}{BREAK}(?:\d{{2}}|\d{{4}}(?:{BREAK}\d{{1,3}})?)"
            rf"|\d{{6}}{BREAK}\d{{4,5}})(?![0-9A-Za-z]|[ .\-\u2013]\d)",
            0.2,
        ),
        # Some groups may be joined, as by an invisible character between them.
        (
            rf"(?<![0-9A-Za-z])(?<!\d[ .\-\u2013])\d{{4}}(?:{BREAK}?\d{{4}}){{3}}"
            r"(?![0-9A-Za-z]|[ .\-\u2013]\d)",
            0.2,
        ),
        (rf"(?<![0-9A-Za-z])\d{{4}}(?:{COLUMNS}\d{{4}}){{3}}(?![0-9A-Za-z])", 0.2),
    ),
    check=check_bank_card,
    context=(
        *("银行卡", "卡号", "账户", "账号", "帐户", "帐号", "信用卡", "借记卡", "储蓄卡"),
        *("card", "account", "credit", "debit", "visa", "mastercard", "amex"),
    ),
)

RULES = (ID_CARD, PHONE_NUMBER, BANK_CARD)
