"""A text as it is read: without invisible characters, with entities and escapes replaced."""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from html import unescape
from typing import NamedTuple

from .scripts import fold

_INVISIBLE = (
    r"[\u0000\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)
_INVISIBLE_ONLY = re.compile(_INVISIBLE)
_ENTITY = r"&(?:amp;){0,3}(?:#\d{2,6}|#[xX][\da-fA-F]{2,5}|[a-zA-Z]{2,8});"
_QUOTED = r"\r?\n(?:[ \t]*>)*[ \t]*"
_UNREAD = re.compile(
    rf"(?<=[a-z]-){_QUOTED}(?=[A-Z])|(?<=[a-z])-{_QUOTED}(?=[a-z])"
    rf"|{_INVISIBLE}"
    rf"|(?P<entity>{_ENTITY})"
    r"|(?P<code>\\u[\da-fA-F]{4}|(?<=\w)%40(?=\w))"
    r"|(?P<escape>\\n(?=[A-Z*\-\d]))"
)
_UNREAD_IN_NAMES = re.compile(
    _UNREAD.pattern
    # A line that has more tabs is a row, whose first cell may be empty.
    + r"|(?P<line>(?<![ \t])[ \t]*\r?\n(?:(?:[ \t]*>)*+[ \t]*+(?=[^\t\n]*(?:\n|$)))?)"
    r"|(?<![\w*])\*{1,3}(?=[^\W\d_])|(?:(?<=[^\W\d_])|(?<=[:.,;)]))\*{1,3}(?![\w*])"
    r"|(?<!\w)(?:_{1,2}|(?<![A-Z]\. )`+)(?=[A-Z])|(?<=[^\W\d_])(?:_{1,2}|`+)(?!\w)"
    r"|\b(?P<word>[^\W\d_]+\.?)  (?=[^\W\d_])"
)


class ReadableText(NamedTuple):
    """A text as it is read, and where each of its pieces is in the original."""

    text: str
    starts: Sequence[int]
    """Where the pieces begin in `text`."""
    pieces: Sequence[tuple[int, int, bool]]
    """Where each begins and ends in the original, and whether it stands there as it is."""

    def bounds(self, start: int, end: int) -> tuple[int, int]:
        """Return where a passage of `text` begins and ends in the original."""
        return self._place(start)[0], self._place(end - 1)[1]

    def _place(self, index: int) -> tuple[int, int]:
        number = bisect_right(self.starts, index) - 1
        start, end, same = self.pieces[number]
        place = start + index - self.starts[number]
        return (place, place + 1) if same else (start, end)


def as_read(text: str, is_half_name: Callable[[str], bool] | None = None) -> ReadableText:
    """Return a text as it is read.

    Hyphens at a line's end are left out too. For names, which `is_half_name` knows half of, so are
    the marks of emphasis in Markdown, blanks and the marks of quoted mail around the ends of lines,
    and the second of two spaces behind half a name: elsewhere they are a column's border.
    """
    if is_half_name is None and not _UNREAD.search(text):
        return ReadableText(text, (0,), ((0, len(text), True),))
    characters, starts, pieces = list[str](), list[int](), list[tuple[int, int, bool]]()
    length = end = 0

    def add(piece: str, start: int, stop: int, *, same: bool) -> None:
        nonlocal length
        if piece:
            characters.append(piece)
            starts.append(length)
            pieces.append((start, stop, same))
            length += len(piece)

    for match in (_UNREAD_IN_NAMES if is_half_name else _UNREAD).finditer(text):
        add(text[end : match.start()], end, match.start(), same=True)
        end = match.end()
        word = match.groupdict().get("word")
        if word is None:
            add(_replacement(match), match.start(), end, same=False)
            continue
        last = match.end("word")
        add(word, match.start(), last, same=True)
        doubled = "  " if is_half_name is None or not is_half_name(word) else " "
        add(doubled, last, end, same=len(doubled) > 1)
    add(text[end:], end, len(text), same=True)
    return ReadableText("".join(characters), starts or (0,), pieces or ((0, 0, True),))


def _replacement(match: re.Match[str]) -> str:
    """Return what is read in place of an entity, an escape, or characters that are not read."""
    if match["entity"]:
        read = match["entity"]
        while (once := unescape(read)) != read:
            read = once
        return _INVISIBLE_ONLY.sub("", fold(read)) if len(read) == 1 else match["entity"]
    if code := match["code"]:
        read = "@" if code == "%40" else chr(int(code[2:], 16))
        return _INVISIBLE_ONLY.sub("", fold(read))
    return "\n" if match["escape"] or match.groupdict().get("line") else ""
