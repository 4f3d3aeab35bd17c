"""Finds a string however a file spells it: escaped, encoded, transliterated, joined or parted.

A string is compared with what a text says once it is decoded: escapes of JSON, entities of HTML,
percent signs of URLs, quoted-printable, words of mail headers, base64, UTF-8 taken for Latin-1,
accents of LaTeX. Beside the look-alikes of `lookalikes`, letters without their accents or with ae
for ä, other marks between words or none, and a name with its last word first are the same string.
"""

import base64
import binascii
import html
import re
import unicodedata
from collections.abc import Iterator

from fedaudit.pii import lookalikes

SHORTEST_JOINED = 8
"""Letters and digits from which a string is looked for without what stands between them."""
DEEPEST = 3
"""How often what was decoded is decoded again."""

_ESCAPE = re.compile(
    r"\\(?:u\{([0-9a-fA-F]{1,6})\}|U([0-9a-fA-F]{8})|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})"
    r"|([0-3][0-7]{2})|([nrtbf/\"'\\]))"
)
_PERCENT_U = re.compile(r"%u([0-9a-fA-F]{4})")
_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_PLAIN_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "", "f": " "}
_QUOTED = re.compile(r"(?:=[0-9A-Fa-f]{2})+")
_SOFT_BREAK = re.compile(r"=\r?\n")
_HEADER_WORD = re.compile(r"=\?[\w-]+\?([bBqQ])\?([^?\s]*)\?=")
_BASE64 = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/_-]{8,}={0,2}(?![\w+/=-])")
_MOJIBAKE = re.compile(r"[\u00c2-\u00f4][\u0080-\u00bf\u0152-\u2122]+")
_LATEX = re.compile(
    r"\\(?!u[0-9a-fA-F]{4}|u\{[0-9a-fA-F]{2,6}\})[\"'`^~=.ckHruv]\s?\{?\\?([A-Za-z])\}?"
)
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,200}>|[*`~]")
_DIGIT = re.compile(r"(?![0-9])\d")
_BETWEEN = re.compile(r"[\W_]+")
_UMLAUTS = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "å": "aa", "ø": "oe", "æ": "ae", "œ": "oe"}
)
_BARE = str.maketrans("øłđðħı", "oldDhi")


def forms(string: str) -> set[str]:
    """Return the forms by which `string` is looked for in `readings`."""
    result = lookalikes.forms(string)
    for spelling in {_apart(string), _apart(_transliterate(string))} - {""}:
        words = spelling.split()
        if len(words) > 1 or len(spelling) > lookalikes.SHORT:
            result.add(spelling)
        if 1 < len(words) < 4 and not any(map(str.isdigit, spelling)):
            words = [words[-1], *words[:-1]]
            result.add(" ".join(words))
        result |= {
            joined
            for joined in ("".join(spelling.split()), "".join(words))
            if len(joined) >= SHORTEST_JOINED
        }
    return result


def readings(text: str) -> Iterator[str]:
    """Yield forms of a text: one of them holds a form of each string that it spells."""
    for decoded in decodings(text):
        yield from lookalikes.folded_readings(decoded)
        apart = _apart(decoded)
        yield apart
        yield apart.replace(" ", "")
        if not decoded.isascii() and (other := _apart(_transliterate(decoded))) != apart:
            yield other
            yield other.replace(" ", "")


def decodings(text: str) -> Iterator[str]:
    """Yield the text, and what it says once it is decoded, if that is something else."""
    yield text
    ends = {text}
    for quoted in (True, False) if "=" in text else (False,):
        current = text
        for _ in range(DEEPEST):
            decoded = _decode(current, quoted=quoted)
            if decoded == current:
                break
            yield decoded
            current = decoded
        ends.add(current)
    for source in ends:
        bare = _TAG.sub("", source)
        if bare != source:
            yield bare
        for match in _BASE64.finditer(source):
            if said := _from_base64(match.group()):
                yield said


def _decode(text: str, *, quoted: bool) -> str:
    """Return what a text says; "=DE" is a character where it is `quoted`, else a value."""
    if quoted:
        text = _HEADER_WORD.sub(_header_word, text)
        text = _QUOTED.sub(_from_bytes, _SOFT_BREAK.sub("", text))
    if "\\" in text:
        text = _ESCAPE.sub(_unescape, _LATEX.sub(r"\1", text))
        text = _join_surrogates(text)
    if "&" in text:
        text = html.unescape(text)
    if "%" in text:
        text = _PERCENT_U.sub(lambda match: chr(int(match[1], 16)), text)
        text = _join_surrogates(_PERCENT.sub(_from_bytes, text))
    return text if text.isascii() else _MOJIBAKE.sub(_misread, text)


def _unescape(match: re.Match[str]) -> str:
    if digits := match[1] or match[2] or match[3] or match[4]:
        code = int(digits, 16)
        return chr(code) if code <= 0x10FFFF else match[0]
    return chr(int(match[5], 8)) if match[5] else _PLAIN_ESCAPES.get(match[6], match[6])


def _join_surrogates(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _from_bytes(match: re.Match[str]) -> str:
    data = bytes.fromhex(re.sub("[=%]", "", match[0]))
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _header_word(match: re.Match[str]) -> str:
    if match[1] in "qQ":
        return _QUOTED.sub(_from_bytes, match[2].replace("_", " "))
    return _from_base64(match[2]) or match[0]


def _from_base64(text: str) -> str:
    """Return the text that base64 spells, if it is one."""
    padded = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        said = base64.b64decode(padded + "=" * (-len(padded) % 4), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return said if said.isprintable() else ""


def _misread(match: re.Match[str]) -> str:
    for encoding in ("latin-1", "cp1252"):
        try:
            return match[0].encode(encoding).decode()
        except UnicodeError:
            continue
    return match[0]


def _transliterate(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold().translate(_UMLAUTS)


def _apart(text: str) -> str:
    """Return the words of a text without accents, in small letters, with one space in between."""
    text = _DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)
    visible = next(lookalikes.folded_readings(text))
    if not visible.isascii():
        letters = unicodedata.normalize("NFKD", visible.translate(_BARE))
        visible = "".join(char for char in letters if not unicodedata.combining(char))
    return _BETWEEN.sub(" ", visible).strip()
