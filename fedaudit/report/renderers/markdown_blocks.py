"""The blocks of a Markdown page: no text in them is a link, HTML or code."""

import html
import re
from collections.abc import Iterator, Sequence

from fedaudit.api.kind import Table
from fedaudit.report.redaction import make_visible


def paragraph(text: str, *, bold: bool = False) -> Iterator[str]:
    """Yield the lines of a paragraph."""
    yield ""
    yield f"**{escape(text)}**" if bold else block(text)


def bullets(title: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a titled list; nothing if the list is empty."""
    if lines:
        yield from ("", f"## {title}", "")
    for line in lines:
        yield f"- {block(line)}"


def table_lines(table: Table) -> Iterator[str]:
    """Yield the lines of a titled table with its notes."""
    yield from ("", f"## {escape(table.title)}", "")
    yield _cells(table.columns)
    sides = ("--:" if column in table.numeric else ":--" for column in table.columns)
    yield f"| {' | '.join(sides)} |"
    for row in table.rows:
        yield _cells(row)
    for note in table.notes:
        yield from paragraph(note)


def _cells(row: Sequence[str]) -> str:
    return f"| {' | '.join(map(escape, row))} |"


def escape(text: str) -> str:
    """Return `text` escaped so that Markdown shows it literally within a line or a cell.

    HTML becomes entities. So do the characters that turn bare addresses into links, and the pipe,
    because some readers would show the backslash before an escaped pipe.
    """
    text = html.escape(make_visible(text), quote=False)
    text = re.sub(r"([\\`*_{}\[\]#!~$])", r"\\\1", text)
    text = text.replace("|", "&#124;").replace("@", "&#64;").replace("://", "&#58;//")
    return re.sub(r"(?i)\bwww\.", lambda match: f"{match[0][:3]}&#46;", text)


def block(text: str) -> str:
    """Return `text` escaped for the start of a line: it begins no list, rule, heading or code."""
    text = escape(text.lstrip(" ") or " ")
    return re.sub(
        r"^([-+=]|\d+(?=[.)]))", lambda match: f"&#{ord(match[0][0])};{match[0][1:]}", text
    )
