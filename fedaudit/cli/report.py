"""fedaudit report: a finished report in another form, checked, or signed."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedaudit.report.checklist.validity import ReportOwner
    from fedaudit.report.query import Row

OWNED = ("annex", "cyclonedx")
"""Formats that name the owner of a report, and its expiry date."""


def report(
    source: Annotated[
        Path,
        typer.Argument(help="A folder with a report.json, or the file; or a folder of many runs."),
    ],
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="terminal, html, json, markdown, annex, cyclonedx, sarif, csv, or excel: CSV "
            "with a byte order mark, by which Excel knows UTF-8.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The file to write; default for html: beside the report."),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Judge its measurements again and hash its files; exit code 1 if something "
            "differs.",
        ),
    ] = False,
    attest: Annotated[
        Path | None,
        typer.Option(
            "--attest",
            metavar="KEY",
            help="Sign the report with an ed25519 key in PEM unless a check finds a difference; "
            "files that are not at hand are not checked.",
        ),
    ] = None,
    public_key: Annotated[
        Path | None,
        typer.Option(
            "--public-key",
            help="With --verify: the public key, in PEM, of whoever must have signed it.",
        ),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(
            "--root", help="The folder that relative file names in the report start from."
        ),
    ] = None,
    owner: Annotated[
        str, typer.Option("--owner", help="With annex or cyclonedx: who owns the document.")
    ] = "",
    expires: Annotated[
        str,
        typer.Option(
            "--expires",
            metavar="DATE",
            help="With annex or cyclonedx: the date until which it is valid.",
        ),
    ] = "",
) -> int:
    """Show a report, write it in another form, check it, or sign it.

    For a folder of many runs it shows a line for each, and writes index.html with trends over
    rounds.
    """
    from fedaudit.api.errors import UsageError
    from fedaudit.cli.audit.run_index import is_folder_of_runs, print_index

    path = source / "report.json" if source.is_dir() else source
    if ((public_key or root) and not (verify or attest)) or (public_key and not verify):
        raise UsageError("--public-key goes with --verify, --root with --verify or --attest.")
    if (owner or expires) and format_ not in OWNED:
        raise UsageError("--owner and --expires go with --format annex or cyclonedx.")
    if is_folder_of_runs(source) and not (verify or attest):
        return print_index(source, format_, out)
    if not (verify or attest):
        return _show_report(path, format_ or "terminal", out, owner, expires)
    if format_ or out or (verify and attest):
        raise UsageError("--verify, --attest and --format or --out exclude each other.")
    from fedaudit.cli import evidence

    if attest:
        return evidence.sign_report(path, attest, root)
    return evidence.print_verification(path, public_key, root)


def _show_report(path: Path, format_: str, out: Path | None, owner: str, expires: str) -> int:
    from fedaudit.api.errors import InputError, unknown_name_error
    from fedaudit.cli.console import print_note, print_report
    from fedaudit.report import document
    from fedaudit.report.checklist.validity import ownership
    from fedaudit.report.verdict import recheck
    from fedaudit.system.outputs import FORMS, check_output, write_output

    forms = _forms()
    if format_ not in {"terminal", *forms, *OWNED}:
        raise unknown_name_error("report format", format_, {"terminal", *forms, *OWNED})
    if format_ == "html" and out is None:
        out = path.with_suffix(".html")
    if out is not None and format_ != "terminal":
        check_output(out, FORMS[format_])
        if out.resolve() == path.resolve():
            raise InputError(f"{out} is the report itself; choose another file.")
    report = document.read(path)
    if format_ == "terminal":
        print_report(report)
        return 0
    if format_ in OWNED:
        text = _owned_forms()[format_](report, ownership(report, owner, expires))
    else:
        text = forms[format_](report)
    if message := recheck.recheck(report).message:
        print_note(message)
    if out is None:
        _print(text, format_)
        return 0
    write_output(out, text, FORMS[format_])
    print_note(f"Written: {out}")
    return 0


def _forms() -> dict[str, "Callable[[Row], str]"]:
    from fedaudit.report import document
    from fedaudit.report.renderers import csv_table, html, markdown, sarif

    forms = {"html": html.render, "json": document.dumps, "markdown": markdown.render}
    return forms | {
        "sarif": sarif.render,
        "csv": csv_table.render,
        "excel": lambda report: f"\ufeff{csv_table.render(report)}",
    }


def _owned_forms() -> dict[str, "Callable[[Row, ReportOwner], str]"]:
    from fedaudit.report.renderers import annex, cyclonedx

    return {"annex": annex.render, "cyclonedx": cyclonedx.render}


def _print(text: str, format_: str) -> None:
    """Print a report; what the terminal's encoding lacks is escaped as the format does it."""
    import json
    import re
    import sys

    encoding = sys.stdout.encoding or "utf-8"
    if format_ in ("json", "sarif", "cyclonedx"):
        try:
            text.encode(encoding)
        except UnicodeEncodeError:
            text = re.sub(r"[^\x00-\x7f]", lambda match: json.dumps(match[0])[1:-1], text)
    print(text.encode(encoding, "xmlcharrefreplace").decode(encoding), end="")
