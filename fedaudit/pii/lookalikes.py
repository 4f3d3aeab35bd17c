"""Folds strings as a reader sees them: any case and width, look-alikes, invisible characters.

Which characters look alike is in Unicode's table (UTS 39, confusables.txt), as the package
homoglyphs_fork keeps it.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import regex

SPACE = "\u200b"
"""The zero-width space: it may stand within a word, or for the space between two."""
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
SHORT = 5
"""Strings without letters get no look-alikes below this length: 11 would be found in `all`."""


class FoldingTable:
    """A table of characters and their replacements."""

    def __init__(self, replacements: Mapping[str, str]) -> None:
        self._all = {ord(char): replacement for char, replacement in replacements.items()}
        self._plain = [
            (char, replacement) for char, replacement in replacements.items() if char.isascii()
        ]

    def fold(self, text: str) -> str:
        """Return `text` with every character replaced; ASCII, where few are, much sooner."""
        if not text.isascii():
            return text.translate(self._all)
        for char, replacement in self._plain:  # no replacement has a character that is replaced
            text = text.replace(char, replacement)
        return text


def forms(string: str) -> set[str]:
    """Return the forms by which `string` is looked for; none where none of it is visible."""
    variants = {_fold_text(string, _foreign())}
    if len(string) >= SHORT or any(map(str.isalpha, string)):
        variants |= {
            _fold_text(string, _lookalike_table()),
            _fold_visible(string.upper(), _lookalike_table()),
        }
    return variants - {""}


def folded_readings(text: str) -> Iterator[str]:
    """Yield forms of a text: one of them holds a form of each string that it spells.

    Time is linear in its length. Look-alikes of other alphabets become letters of ASCII of their
    case, so that case can be folded; look-alikes within ASCII (0 and O, 1, l and I, m and rn) are
    another form, for a small l is not a small i.
    """
    yield _fold_text(text, _foreign())
    yield _fold_text(text, _lookalike_table())
    yield _fold_visible(text, _lookalike_table())
    if SPACE in text:
        yield _fold_text(text.replace(SPACE, " "), _foreign())


def _fold_text(text: str, table: FoldingTable) -> str:
    return _normalize_spaces(table.fold(_fold_visible(text, table).casefold()))


def _fold_visible(text: str, table: FoldingTable) -> str:
    """Return `text` in compatible forms (NFKD), each character for one that looks like it."""
    # Before as well, for compatible forms may look like something else: a lunate sigma like a c.
    visible = unicodedata.normalize("NFKD", table.fold(text))
    if not text.isascii() or _CONTROL.search(text):
        visible = _unseen().sub("", visible)
    return _normalize_spaces(table.fold(table.fold(visible)))


def _normalize_spaces(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKD", text).split())


@cache
def _unseen() -> "regex.Pattern[str]":
    """Return a pattern of characters that take no room: zero-width ones, joiners, controls."""
    import regex

    unseen = r"[\p{Default_Ignorable_Code_Point}\p{Cf}[\p{Cc}--\p{White_Space}]]+"
    return regex.compile(unseen, regex.V1)


@cache
def _foreign() -> FoldingTable:
    """Return the ASCII look-alike of each character beyond ASCII, of the same case."""
    table: dict[str, str] = {}
    for kind in _kinds():
        plain = sorted(char for char in kind if len(char) == 1 and char.isascii())
        for char in kind if plain else ():
            if len(char) == 1 and not char.isascii():
                category = unicodedata.category(char)
                table[char] = min(plain, key=lambda c: (_category_distance(c, category), c))
    return FoldingTable(table)


def _category_distance(char: str, category: str) -> int:
    char_category = unicodedata.category(char)
    return 0 if char_category == category else 1 if char_category == "Ll" else 2


@cache
def _lookalike_table() -> FoldingTable:
    """Return one look-alike of each character that has any; it may be longer: rn for m."""
    table: dict[str, str] = {}
    for kind in _kinds():
        plainest = min(kind, key=_plainness)
        table |= {char: plainest for char in kind if len(char) == 1 and char not in plainest}
    return FoldingTable(table)


def _plainness(string: str) -> tuple[bool, int, bool, str]:
    """Order look-alikes: ASCII first, several characters before one, letters before digits."""
    return not string.isascii(), -len(string), not string.isalpha(), string.swapcase()


@cache
def _kinds() -> tuple[frozenset[str], ...]:
    """Return the sets of look-alikes, each with all that looks like any of its members."""
    text = files("homoglyphs_fork").joinpath("confusables.json").read_text("utf-8")
    kinds: dict[str, set[str]] = {}
    for string, lookalikes in json.loads(text).items():
        joined = _drop_direction_marks((string, *lookalikes))
        for group in [kinds[s] for s in joined if s in kinds]:
            joined |= group
        kinds |= dict.fromkeys(joined, joined)
    return tuple({id(kind): frozenset(kind) for kind in kinds.values()}.values())


def _drop_direction_marks(strings: Iterable[str]) -> set[str]:
    """Return strings without the marks of their direction, which the table puts around some."""
    return {_unseen().sub("", string) for string in strings} - {""}
