"""fedaudit report: a finished report in another form, checked, or signed."""

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedaudit.api.errors import InputError, UsageError, unknown_name_error
from fedaudit.cli.console import console, print_note, print_report
from fedaudit.system import outputs
from fedaudit.system.outputs import FORMS, REPORT, check_output, write_output

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedaudit.report.checklist.validity import ReportOwner
    from fedaudit.report.query import Row

INDEX = "index.html"
MOST_ROUNDS = 4
"""Columns of rounds that fit a width of 80."""


def is_folder_of_runs(folder: Path) -> bool:
    """Tell whether a folder holds several runs: it has no report of its own."""
    return folder.is_dir() and not (folder / "report.json").exists()


def print_index(folder: Path, format_: str | None, out: Path | None) -> int:
    """Print a line for each run below a folder, and write the page beside them, or to `out`."""
    from fedaudit.report.index import problems_table, run_entries, runs_table, trend_tables, trends
    from fedaudit.report.renderers import run_index
    from fedaudit.report.renderers.terminal import print_tables

    entries = run_entries(folder)
    if format_ not in (None, "html", "terminal"):
        raise UsageError(f"A folder of runs is shown as html or terminal, not as {format_}.")
    if format_ != "terminal":
        check_output(out or folder / INDEX, outputs.INDEX)
    changes = trend_tables(trends(entries), MOST_ROUNDS)
    tables = [runs_table(entries), *changes, *problems_table(entries)]
    if format_ != "html":
        print_tables([table for table in tables if table.rows], console())
    if format_ != "terminal":
        page = out or folder / INDEX
        write_output(
            page, run_index.render(entries, f"Runs in {folder.resolve().name}"), outputs.INDEX
        )
        print_note(f"Written: {page}")
    return 0


OWNED = ("html", "annex", "docx", "cyclonedx")
"""Formats that name the owner of a report, its expiry date, and parties by their titles."""
BESIDE = {"html": "report.html", "annex": "annex.html", "docx": "annex.docx"}
"""The files that are written beside the report where no other one is named."""
SUFFIXES = {
    ".html": ("html", "annex"),
    ".docx": ("docx", "annex"),
    ".json": ("json", "sarif", "cyclonedx"),
    ".sarif": ("sarif",),
    ".md": ("markdown",),
    ".csv": ("csv", "excel"),
}
"""The formats of a file by the end of its name, the usual one first."""


def report(
    source: Annotated[
        Path,
        typer.Argument(help="A folder with a report.json, or the file; or a folder of many runs."),
    ],
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="terminal, html, json, markdown, annex: the document to file with an impact "
            "assessment, docx: the same for Word, cyclonedx, sarif, csv, or excel: CSV with a byte "
            "order mark, by which Excel knows UTF-8. Default: what the name of --out says, else "
            "terminal.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="The file to write; default for html, annex and docx: beside the report."
        ),
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
            help="With --verify: the public key, in PEM, of the required signer.",
        ),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(
            "--root", help="The folder that relative file names in the report start from."
        ),
    ] = None,
    owner: Annotated[
        str,
        typer.Option("--owner", help="With html, annex, docx or cyclonedx: who owns the document."),
    ] = "",
    expires: Annotated[
        str,
        typer.Option(
            "--expires",
            metavar="DATE",
            help="With html, annex, docx or cyclonedx: the date until which it is valid.",
        ),
    ] = "",
    party: Annotated[
        list[str] | None,
        typer.Option(
            "--party",
            metavar="NAME=TITLE",
            help='With html, annex or docx: what a party is called, as "c1=St Mary\'s Hospital". '
            "Repeatable.",
        ),
    ] = None,
    laws: Annotated[
        bool,
        typer.Option(
            "--laws",
            help="With html, annex or docx: what laws outside the EU say, too.",
        ),
    ] = False,
) -> int:
    """Show a report, write it in another form, check it, or sign it.

    For a folder of many runs it shows a line for each, and writes index.html with trends over
    rounds.
    """
    path = source / "report.json" if source.is_dir() else source
    if ((public_key or root) and not (verify or attest)) or (public_key and not verify):
        raise UsageError("--public-key goes with --verify, --root with --verify or --attest.")
    if (verify or attest) and (format_ or out or (verify and attest)):
        raise UsageError("--verify, --attest and --format or --out exclude each other.")
    many = is_folder_of_runs(source) and not (verify or attest)
    form = (format_ or "") if many else _format_of(format_, out)
    if (owner or expires) and form not in OWNED:
        raise UsageError("--owner and --expires go with --format html, annex, docx or cyclonedx.")
    if (party or laws) and form not in BESIDE:
        raise UsageError("--party and --laws go with --format html, annex or docx.")
    if many:
        return print_index(source, format_, out)
    if not (verify or attest):
        options = {"owner": owner, "expires": expires, "parties": party or (), "laws": laws}
        return _show_report(path, form, out, options)
    from fedaudit.cli import evidence

    if attest:
        return evidence.sign_report(path, attest, root)
    return evidence.print_verification(path, public_key, root)


def _format_of(format_: str | None, out: Path | None) -> str:
    """Return the format to write: the one asked for, else the one that the file's name ends in."""
    if out is None:
        return format_ or "terminal"
    formats = SUFFIXES.get(out.suffix.lower(), ())
    if format_ == "terminal" or not (format_ or formats):
        raise UsageError(f"Say with --format in which form to write {out}.")
    if format_ is None:
        return formats[0]
    fitting = [end for end, names in SUFFIXES.items() if format_ in names]
    if formats and fitting and format_ not in formats:
        raise UsageError(
            f"--format {format_} does not go with the name {out}: give it the ending "
            f"{' or '.join(fitting)}."
        )
    # An annex is written in two forms.
    return "docx" if (format_, formats) == ("annex", SUFFIXES[".docx"]) else format_


def _show_report(path: Path, format_: str, out: Path | None, options: dict[str, Any]) -> int:
    from fedaudit.report import document
    from fedaudit.report.checklist.validity import ownership
    from fedaudit.report.verdict import recheck

    forms = _forms()
    if format_ not in {"terminal", *forms, *OWNED}:
        raise unknown_name_error("report format", format_, {"terminal", *forms, *OWNED})
    if format_ in BESIDE and out is None:
        out = path.with_name(BESIDE[format_].replace("report", path.stem))
    if out is not None and format_ != "terminal":
        check_output(out, FORMS[format_])
        if out.resolve() == path.resolve():
            raise InputError(f"{out} is the report itself; choose another file.")
    report = document.read(path)
    if format_ == "terminal":
        print_report(report)
        return 0
    content: str | bytes
    if format_ in OWNED:
        content = _owned_forms()[format_](report, ownership(report, **options))
    else:
        content = forms[format_](report)
    if message := recheck.recheck(report).message:
        print_note(message)
    if out is None:
        _print(str(content), format_)
        return 0
    kind = REPORT.of(report["run"]["command"]) if format_ == "json" else FORMS[format_]
    write_output(out, content, kind)
    print_note(f"Written: {out}")
    return 0


def _forms() -> dict[str, "Callable[[Row], str]"]:
    from fedaudit.report import document
    from fedaudit.report.renderers import csv_table, markdown, sarif

    return {
        "json": document.dumps,
        "markdown": markdown.render,
        "sarif": sarif.render,
        "csv": csv_table.render,
        "excel": lambda report: f"\ufeff{csv_table.render(report)}",
    }


def _owned_forms() -> dict[str, "Callable[[Row, ReportOwner], str | bytes]"]:
    from fedaudit.report.renderers import annex, annex_docx, cyclonedx, html

    return {
        "html": html.render,
        "annex": annex.render,
        "docx": annex_docx.render,
        "cyclonedx": cyclonedx.render,
    }


def _print(text: str, format_: str) -> None:
    """Print a report; what the terminal's encoding lacks is escaped as the format does it."""
    encoding = sys.stdout.encoding or "utf-8"
    if format_ in ("json", "sarif", "cyclonedx"):
        try:
            text.encode(encoding)
        except UnicodeEncodeError:
            text = re.sub(r"[^\x00-\x7f]", lambda match: json.dumps(match[0])[1:-1], text)
    print(text.encode(encoding, "xmlcharrefreplace").decode(encoding), end="")
