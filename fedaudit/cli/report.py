"""fedaudit report: a finished report in another form."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    source: Annotated[Path, typer.Argument(help="A folder with a report.json, or the file.")],
    format_: Annotated[
        str, typer.Option("--format", help="terminal, html, json or markdown.")
    ] = "terminal",
    out: Annotated[
        Path | None, typer.Option("--out", help="The file to write; html: beside the report.")
    ] = None,
) -> int:
    """Show a report, or write it as HTML, JSON or Markdown."""
    from fedaudit.cli.show import note, shown
    from fedaudit.errors import unknown
    from fedaudit.files import atomic_text
    from fedaudit.report import document, html, markdown

    path = source / "report.json" if source.is_dir() else source
    forms = {"html": html.render, "json": document.dumps, "markdown": markdown.render}
    if format_ not in {"terminal", *forms}:
        raise unknown("report format", format_, {"terminal", *forms})
    found = document.read(path)
    if format_ == "terminal":
        shown(found)
        return 0
    text = forms[format_](found)
    if format_ == "html" and out is None:
        out = path.with_suffix(".html")
    if out is None:
        _print(text, format_)
        return 0
    atomic_text(out, text)
    note(f"Written: {out}")
    return 0


def _print(text: str, format_: str) -> None:
    """Print a report; what the terminal's encoding does not have is spelt as the format does."""
    import json
    import re
    import sys

    encoding = sys.stdout.encoding or "utf-8"
    if format_ == "json":
        try:
            text.encode(encoding)
        except UnicodeEncodeError:
            text = re.sub(r"[^\x00-\x7f]", lambda found: json.dumps(found[0])[1:-1], text)
    print(text.encode(encoding, "xmlcharrefreplace").decode(encoding), end="")
