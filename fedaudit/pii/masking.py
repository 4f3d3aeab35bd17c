"""Replaces personal data, in a record's text and in its fields alike."""

import hashlib
import hmac
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, Literal, get_args

from fedaudit.api.records import Document, PiiSpan, TextPiece
from fedaudit.api.scripts import has_han
from fedaudit.pii.checksums import (
    iban_check_digits,
    id_card_check_digit,
    is_id_card,
    is_luhn,
    luhn_check_digit,
)
from fedaudit.pii.normalized_search import find_strings, normalize
from fedaudit.pii.spans import resolve
from fedaudit.pii.surrogate_dates import birth_date, date_like
from fedaudit.pii.taxonomy import category

if TYPE_CHECKING:
    from faker import Faker


Maker = Callable[[str, random.Random], str | None]

_TITLE = re.compile(r"(?:mr|mrs|ms|miss|dr|prof|sir|lady|judge)\b\.? +", re.IGNORECASE)
_IPV4 = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_MAC = re.compile(r"(?i)[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}")
_IBAN = re.compile(r"(?i)[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}")
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
    """Return an e-mail address that no one can have."""
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
    """Return the number of a card or account; country or issuer stay, check digits are true."""
    places = [i for i, char in enumerate(string) if char.isascii() and char.isalnum()]
    bare = "".join(string[i] for i in places)
    new = number(string, rng)
    if new is None:
        return None
    if _IBAN.fullmatch(bare):
        body = "".join(new[i] for i in places[4:])
        drawn = f"{bare[:2]}{iban_check_digits(bare[:2], body)}{body}"
    elif len(bare) >= 12 and is_luhn(bare):
        drawn = bare[:4] + "".join(rng.choices("0123456789", k=len(bare) - 5))
        drawn += luhn_check_digit(drawn)
    else:
        return new
    result = list(string)
    for position, char in zip(places, drawn, strict=True):
        result[position] = char
    return "".join(result)


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
    """Return a web address that no one can have."""
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


Style = Literal["mask", "asterisks", "label", "pseudonym"]
"""[MASK]; asterisks of the same length; the label in angle brackets; something of the same kind."""

STYLES: tuple[str, ...] = get_args(Style)

Substitute = Callable[[str, str], str]
"""What stands in the place of a (string, label)."""


@dataclass(frozen=True, slots=True)
class _Edit:
    """A replacement in a text: half-open, in code points."""

    start: int
    end: int
    label: str
    new: str


def substitution(style: Style, documents: Iterable[Document], key: str) -> Substitute:
    """Return the substitute of `style` for the personal data of `documents`.

    Only pseudonyms depend on the documents and on the key; equal strings of one label get equal
    ones. Anyone who knows the key can test whom a pseudonym stands for.
    """
    if style == "pseudonym":
        pairs = (pair for document in documents for pair in document.strings())
        return partial(_looked_up, assign_pseudonyms(pairs, key=key))
    return {"mask": _mask, "asterisks": _asterisks, "label": _tag}[style]


def mask_document(
    document: Document,
    written: Substitute,
    chosen: Callable[[str], bool] = lambda label: True,
) -> Document:
    """Return `document` with `written` in the place of its personal data of the `chosen` labels.

    What stands in the text at a field's place stands in the field too. A field that is not in the
    text has every masked string replaced wherever it holds one, be it with other white space. The
    annotation that is left is of the labels that were not chosen.
    """
    text = document.text
    edits = [_edit(text, span, written) for span in document.pii or () if chosen(span.label)]

    def field(name: str) -> str:
        value = getattr(document, name)
        return _field(value, _field_offset(name, document), text, edits, written)

    return replace(
        document,
        text=_apply_edits(text, edits),
        instruction=field("instruction"),
        input=field("input"),
        output=field("output"),
        pii=_shift_spans([span for span in document.pii or () if not chosen(span.label)], edits),
    )


def masked_pieces(
    document: Document,
    pieces: Sequence[TextPiece],
    written: Substitute,
    chosen: Callable[[str], bool] = lambda label: True,
) -> tuple[list[str], tuple[PiiSpan, ...]]:
    """Return the pieces of a document's text masked, and the annotation that is left of it.

    What the template wrote between them stays, even in the middle of personal data.
    """
    offset, texts, edits = 0, [], []
    spans = [span for span in document.pii or () if chosen(span.label)]
    for piece in pieces:
        end = offset + len(piece.text)
        inside = [span for span in spans if piece.place and span.start < end and span.end > offset]
        clipped = [
            PiiSpan(max(0, span.start - offset), min(end, span.end) - offset, span.label)
            for span in inside
        ]
        new_edits = [_edit(piece.text, span, written) for span in clipped if span.start < span.end]
        texts.append(_apply_edits(piece.text, new_edits))
        edits += [
            replace(edit, start=edit.start + offset, end=edit.end + offset) for edit in new_edits
        ]
        offset = end
    remaining = [span for span in document.pii or () if not chosen(span.label)]
    return texts, _shift_spans(remaining, edits)


def rewrite_spans(text: str, spans: Iterable[PiiSpan], written: Substitute) -> str:
    """Return `text` with `written` in the place of `spans`, sorted and without overlap."""
    return _apply_edits(text, [_edit(text, span, written) for span in spans])


def _mask(_string: str, _label: str) -> str:
    return "[MASK]"


def _asterisks(string: str, _label: str) -> str:
    return "*" * len(string)


def _tag(_string: str, label: str) -> str:
    return f"<{label}>"


def _looked_up(table: dict[tuple[str, str], str], string: str, label: str) -> str:
    """Return a string's pseudonym, or the label for a piece of a string, which has none."""
    core = string.strip()
    if (core, label) not in table:
        return f"<{label}>"
    start = string.index(core)
    return string[:start] + table[core, label] + string[start + len(core) :]


def _edit(text: str, span: PiiSpan, written: Substitute) -> _Edit:
    new = written(text[span.start : span.end], span.label)
    return _Edit(span.start, span.end, span.label, new)


def _apply_edits(text: str, edits: Sequence[_Edit]) -> str:
    """Return `text` after `edits`, which are sorted and without overlap."""
    pieces, position = [], 0
    for edit in edits:
        pieces += [text[position : edit.start], edit.new]
        position = edit.end
    return "".join([*pieces, text[position:]])


def _shift_spans(spans: Sequence[PiiSpan], edits: Sequence[_Edit]) -> tuple[PiiSpan, ...]:
    """Return `spans` where they stand after `edits`; both are sorted, and none overlap."""
    moved, shift, following = [], 0, iter(edits)
    edit = next(following, None)
    for span in spans:
        while edit is not None and edit.end <= span.start:
            shift += len(edit.new) - (edit.end - edit.start)
            edit = next(following, None)
        moved.append(PiiSpan(span.start + shift, span.end + shift, span.label))
    return tuple(moved)


def _field_offset(name: str, document: Document) -> int:
    """Return where in the text a field stands: the output ends it, the input follows; -1 nowhere.

    A text need not have been made by a template that is known here.
    """
    text, value = document.text, getattr(document, name)
    if name == "output" and text.endswith(value):
        return len(text) - len(value)
    if name == "input":
        before = document.instruction
        after = text.find(value, max(0, text.find(before)) + len(before))
        return after if after >= 0 else text.find(value)
    return text.find(value)


def _field(value: str, start: int, text: str, edits: Sequence[_Edit], written: Substitute) -> str:
    """Return a field masked as the text is at its position.

    The same words may stand elsewhere in the text as well: what is personal data there is masked
    in the field too, since its place is only the likeliest one.
    """
    if not value or not edits:
        return value
    if start < 0:
        return _replace_masked(value, text, edits)
    candidates = {
        _clip_span(edit, start, len(value)) for edit in edits if _meets(edit, start, value)
    }
    repeat = text.find(value)
    while repeat >= 0:
        inside = (e for e in edits if repeat <= e.start and e.end <= repeat + len(value))
        candidates |= {PiiSpan(e.start - repeat, e.end - repeat, e.label) for e in inside}
        repeat = text.find(value, repeat + 1)
    spans = resolve((1.0, span) for span in candidates)
    return _apply_edits(value, [_edit(value, span, written) for span in spans])


def _meets(edit: _Edit, start: int, value: str) -> bool:
    return edit.start < start + len(value) and edit.end > start


def _clip_span(edit: _Edit, start: int, length: int) -> PiiSpan:
    return PiiSpan(max(0, edit.start - start), min(length, edit.end - start), edit.label)


def _replace_masked(value: str, text: str, edits: Sequence[_Edit]) -> str:
    """Return `value` with each masked string replaced, longer ones first, none twice.

    A field that is not in the text may spell the string differently: see `find_strings`.
    """
    edit_of = {text[edit.start : edit.end].strip(): edit for edit in edits}
    replacements = {
        PiiSpan(start, end, edit_of[string].label): edit_of[string].new.strip()
        for string, start, end in find_strings(edit_of, value)
    }
    spans = resolve((1.0, span) for span in replacements)
    return _apply_edits(value, [_Edit(s.start, s.end, s.label, replacements[s]) for s in spans])


ATTEMPTS = 50
"""How often something is invented before a label has to do."""

_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]")
_MARKS = str.maketrans(dict.fromkeys("’‘ʼ`´＇", "'") | dict.fromkeys("‐‑‒–﹣－", "-"))

DIGITS = 8
"""Hexadecimal digits behind such a label: of a thousand strings two share theirs once in 8,600."""


def assign_pseudonyms(pairs: Iterable[tuple[str, str]], *, key: str) -> dict[tuple[str, str], str]:
    """Return a pseudonym for each (string, label) of a data set, without white space around it.

    Strings that differ in white space and Unicode form alone have the same one. So have names that
    differ in case, apostrophes or hyphens alone, and one string under labels of one category. None
    equals a string of the data set, of whatever label and case, and no two others are equal, so
    what was told apart still is. What cannot be invented becomes a label with digits that follow
    from the key, such as <GENDER-7f3a2c91>. All follow from the string, its label and `key`; the
    order does not matter, and other strings only where two would have got the same pseudonym, or
    where one would be what another is.
    """
    given = {(string.strip(), label) for string, label in pairs}
    reserved = {form.casefold() for string, _ in given for form in (string, normalize(string))}
    spellings: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for string, label in given:
        spellings.setdefault(_identity(string, label), set()).add((normalize(string), label))
    made: dict[tuple[str, str], str] = {}
    for same in sorted(spellings):
        spelt = sorted(spellings[same])
        new = _invent_unused(same, spelt, reserved, key) or _pseudonyms(same, spelt, reserved, key)
        reserved |= {one.casefold() for one in new.values()}
        made |= new
    return {(string, label): made[normalize(string), label] for string, label in given}


def _identity(string: str, label: str) -> tuple[str, str]:
    """Return what a string and its label have in common with others of the same person or thing.

    Labels of one category are the same. So are names that differ in case, in invisible characters,
    or in the form of apostrophes and hyphens; of numbers and addresses these may be all there is.
    """
    known = category(label)
    if known is None or known.name != "Name":
        return normalize(string), known.labels[0] if known else label
    return normalize(_UNSEEN.sub("", string).translate(_MARKS)).casefold(), known.labels[0]


def _invent_unused(
    same: tuple[str, str], spelt: Sequence[tuple[str, str]], reserved: set[str], key: str
) -> dict[tuple[str, str], str]:
    """Return the first invention that is still free, as each spelling has it; empty for none."""
    for attempt in range(ATTEMPTS):
        digest = _digest(key, *reversed(same), str(attempt))
        new = {
            pair: surrogate_like(_UNSEEN.sub("", pair[0]), pair[1], random.Random(digest))
            for pair in spelt
        }
        complete = {pair: one for pair, one in new.items() if one is not None}
        if len(complete) < len(new):
            return {}
        if not any(one.casefold() in reserved for one in complete.values()):
            return complete
    return {}


def _pseudonyms(
    same: tuple[str, str], spelt: Sequence[tuple[str, str]], reserved: set[str], key: str
) -> dict[tuple[str, str], str]:
    """Return the labels with the first digits of a hash, more of them where those are taken.

    Counting up would reveal the alphabetical order, and depend on which strings there are.
    """
    digest = _digest(key, "tag", *reversed(same)).hex()
    tags = (
        {(string, label): f"<{label}-{digest[:size]}>" for string, label in spelt}
        for size in range(DIGITS, len(digest) + 1)
    )
    return next(new for new in tags if not any(tag.casefold() in reserved for tag in new.values()))


def _digest(key: str, *fields: str) -> bytes:
    """Return the HMAC-SHA256 of `fields`, which no one can foretell who does not know `key`."""
    message = "\x00".join(fields).encode("utf-8", "surrogatepass")
    return hmac.digest(key.encode(), message, hashlib.sha256)
