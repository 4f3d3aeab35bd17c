"""International bank account numbers (ISO 13616) of all countries of the registry, as written."""

from collections import defaultdict

from .custom import is_mod97
from .rules import BREAK, DetectionRule

_LENGTHS = (
    "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 "
    "DJ27 DK18 DO28 EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 "
    "HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 "
    "MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 "
    "RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 "
    "VA22 VG24 XK20 YE30"
)
"""Country codes with the number of characters, by SWIFT's registry."""


def _pattern() -> str:
    countries = defaultdict[int, list[str]](list)
    for entry in _LENGTHS.split():
        countries[int(entry[2:])].append(entry[:2])
    forms = (
        rf"(?:{'|'.join(codes)})(?:{BREAK}?\d){{2}}(?:{BREAK}?[A-Z0-9]){{{length - 4}}}"
        for length, codes in countries.items()
    )
    return rf"(?<![0-9A-Za-z])(?:{'|'.join(forms)})(?![0-9A-Za-z])"


def check_iban(text: str) -> bool:
    """Tell whether the check digits of a number hold."""
    return is_mod97("".join(filter(str.isalnum, text)).upper())


IBAN_CODE = DetectionRule(
    label="IBAN_CODE", patterns=((_pattern(), 0.5),), check=check_iban, context=("iban",)
)
