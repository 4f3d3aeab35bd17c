"""Check digits of the numbers that people are known by."""

# GB 11643-1999: weights are powers of two modulo 11, the check character of 10 is X.
_ID_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
_ID_CHECKS = "10X98765432"


def id_card_check_digit(first_17: str) -> str:
    """Return the 18th character of a mainland Chinese identity card (GB 11643-1999)."""
    total = sum(int(digit) * weight for digit, weight in zip(first_17, _ID_WEIGHTS, strict=True))
    return _ID_CHECKS[total % 11]


def luhn_check_digit(number: str) -> str:
    """Return the digit that makes `number` pass the Luhn test (ISO/IEC 7812-1, annex B)."""
    total = 0
    for position, digit in enumerate(reversed(number)):
        doubled = int(digit) * (2 if position % 2 == 0 else 1)
        total += doubled - 9 if doubled > 9 else doubled
    return str(-total % 10)


def is_mod97(number: str) -> bool:
    """Tell whether ISO 7064 MOD 97-10 holds with the first four characters last, as in an IBAN."""
    if not (number.isascii() and number.isalnum() and len(number) > 4):
        return False
    return _mod97(number) == 1


def iban_check_digits(country: str, account: str) -> str:
    """Return what stands between country code and account in an IBAN (ISO 13616)."""
    return f"{98 - _mod97(f'{country}00{account}'):02}"


def _mod97(number: str) -> int:
    return int("".join(str(int(char, 36)) for char in number[4:] + number[:4])) % 97


def is_id_card(text: str) -> bool:
    """Tell whether `text` is an 18-character identity card number with a true check digit."""
    return (
        len(text) == 18
        and text[:17].isascii()
        and text[:17].isdigit()
        and id_card_check_digit(text[:17]) == text[17].upper()
    )


def is_luhn(text: str) -> bool:
    """Tell whether the digits of `text` pass the Luhn test."""
    return (
        len(text) > 1
        and text.isascii()
        and text.isdigit()
        and luhn_check_digit(text[:-1]) == text[-1]
    )
