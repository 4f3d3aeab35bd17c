"""Files that a command writes where the user says: never in place of a file of another kind.

An output takes the place of an empty file, or of one that fedaudit wrote as the same kind: a JSON
file by the names in it, any other by a mark.
"""

import json
import os
from base64 import b64decode
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.system.files import atomic, check_target, open_regular, read_json

_END = 2**16
"""Bytes at a file's beginning and at its end in which its mark is looked for."""


@dataclass(frozen=True)
class OutputKind:
    """A kind of output, and how a file of it is told from others."""

    name: str
    keys: frozenset[str] = frozenset()
    """The names that a JSON object of this kind has."""
    mark: bytes = b""
    """Bytes that a file of this kind begins or ends with, or has near its beginning."""
    statement: bytes = b""
    """Bytes in the statement of a signed envelope (DSSE)."""
    lines: bool = False
    """Whether it is JSONL; the first line is looked at."""
    command: str = ""
    """The command that a report of this kind is of; that of any command without one."""

    def of(self, command: str) -> "OutputKind":
        """Return the kind of a report that a command wrote."""
        return replace(self, name=f"a report of {command}", command=command)

    def is_kind_of(self, path: Path) -> bool:
        """Return whether fedaudit wrote the file `path` as this kind of output."""
        try:
            with open_regular(path) as file:
                ends = [file.read(_END)]
                file.seek(-min(_END, path.stat().st_size), os.SEEK_END)
                ends.append(file.read(_END))
            if not any(self.mark in end for end in ends):
                return False
            if not self.keys:
                return True
            content = json.loads(ends[0].partition(b"\n")[0]) if self.lines else read_json(path, "")
        except (InputError, OSError, ValueError, RecursionError):
            return False
        if not isinstance(content, dict) or not self.keys <= content.keys():
            return False
        return self.statement in _statement(content) and self._is_of_command(content)

    def _is_of_command(self, content: dict[str, Any]) -> bool:
        if not self.command:
            return True
        run = content.get("run")
        command = str(run.get("command")) if isinstance(run, dict) else ""
        return f"{self.command} ".startswith(f"{command} ")  # a report of `dp audit` says `dp`


def _statement(envelope: dict[str, Any]) -> bytes:
    with suppress(ValueError, TypeError):
        return b64decode(envelope.get("payload", ""))
    return b""


def _json(name: str, *keys: str, mark: bytes = b"", statement: bytes = b"") -> OutputKind:
    return OutputKind(name, frozenset(keys), mark, statement)


def signed(name: str, predicate: str) -> OutputKind:
    """Return the kind of a statement with this predicate in a signed envelope."""
    return _json(name, "payload", "payloadType", "signatures", statement=predicate.encode())


REPORT = _json("a report", "schema_version", "run", "measurements", "findings")
COMPARISON = _json("a comparison", "differences", "leaks", "notes", "verdicts")
BASELINE = _json("a comparison with a baseline", "status", "reasons", "leaks", "numbers")
COUNTS = _json("counts of a scrub", "in", "out", "style", "masked", "kept")
SARIF = _json("a report in SARIF", "$schema", "version", "runs", mark=b'"name": "fedaudit"')
CYCLONEDX = _json("a bill of materials", "bomFormat", "declarations", mark=b'"fedaudit"')
ATTESTATION = signed("an attestation", "urn:fedaudit:attestation:")
REVEALED = OutputKind("a file of leaks", frozenset({"id", "label", "text"}), lines=True)
GENERATOR = "fedaudit report"


def page_generator(page: str) -> str:
    """Return what a kind of page, called as its template, names as its generator."""
    return GENERATOR if page == "report" else f"{GENERATOR} ({page})"


def _page(name: str, page: str) -> OutputKind:
    return OutputKind(name, mark=f'name="generator" content="{page_generator(page)}"'.encode())


PAGE = _page("a report's page", "report")
ANNEX = _page("an annex", "annex")
COMPARISON_PAGE = _page("a comparison's page", "comparison")
INDEX = _page("a page of many runs", "run_index")
SIGNED_TEXT = f"Written by {GENERATOR}."
"""The last line of a report in Markdown."""
TEXT = OutputKind("a report in Markdown", mark=SIGNED_TEXT.encode())
WORD = OutputKind("an annex for Word", mark=f"<dc:description>{GENERATOR}<".encode())
TABLE = OutputKind("a report in CSV", mark=b"kind,plugin,metric,value,low,high,n,hits,")
FORMS = {
    "html": PAGE,
    "json": REPORT,
    "markdown": TEXT,
    "annex": ANNEX,
    "docx": WORD,
    "cyclonedx": CYCLONEDX,
    "sarif": SARIF,
    "csv": TABLE,
    "excel": TABLE,
}
"""The kinds of a report's forms, by `--format`."""


def check_output(path: Path, kind: OutputKind) -> None:
    """Raise InputError unless an output of this kind can be written to `path`.

    It is free, an empty file, or a file of the same kind.
    """
    if path.is_dir() and not path.is_symlink():
        raise InputError(f"{path} cannot be written: it is a folder; a file is needed.")
    check_target(path)
    try:
        size = path.stat().st_size
    except OSError:
        return
    if size and not kind.is_kind_of(path):
        raise InputError(
            f"{path} exists and is not {kind.name} that fedaudit wrote: it stays as it is; choose "
            "another file."
        )


def write_output(path: Path, content: str | bytes, kind: OutputKind, mode: int = 0o644) -> None:
    """Write an output, whole or not at all; raises as `check_output` and `atomic` do."""
    check_output(path, kind)
    with atomic(path, mode) as temporary:
        temporary.write_bytes(content if isinstance(content, bytes) else content.encode())
