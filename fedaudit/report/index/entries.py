"""The runs in a folder, each with what its report comes to; those that cannot be read, too."""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.report import document
from fedaudit.report.checklist.attackers import headline_totals
from fedaudit.report.query import Row
from fedaudit.report.text import summary
from fedaudit.report.verdict.recheck import recheck

REPORT = "report.json"
DEEPEST = 6
"""How many levels of folders are searched below the given one."""

ROUND = re.compile(r"(?P<federation>.*?)/?rounds/(?P<round>\d+)/global/?")
"""The folder of a round's adapter in that of its federation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEntry:
    """One report of a folder, as its index shows it; with `problem` only its path is known."""

    path: Path
    """The report's path relative to the folder."""
    problem: str = ""
    run: Mapping[str, Any] = field(default_factory=dict)
    verdict: str = ""
    release: str = ""
    federation: str = ""
    round: int | None = None
    model: str = ""
    findings: Mapping[str, int] = field(default_factory=dict)
    """The number of findings of each severity."""
    rows: tuple[Row, ...] = ()
    """The headline totals of each attack."""
    page: bool = False
    """Whether an HTML report lies beside it."""

    @property
    def start_time(self) -> str:
        """When the run began, in ISO 8601; empty where that is not known."""
        return str(self.run.get("started", ""))


def run_entries(folder: Path) -> list[RunEntry]:
    """Return every report below a folder, the newest first and those that cannot be read last.

    Links are not followed. Raises InputError where there is none.
    """
    entries = [_entry(path, folder) for path in _reports(folder)]
    if not entries:
        raise InputError(f"There is no {REPORT} in {folder} or below it.")
    entries.sort(key=lambda entry: str(entry.path))
    return sorted(entries, key=lambda entry: (not entry.problem, entry.start_time), reverse=True)


def _reports(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        depth = len(Path(root).relative_to(folder).parts)
        keep = (name for name in folders if not name.startswith("."))
        folders[:] = sorted(keep) if depth < DEEPEST else []
        if REPORT in files:
            yield Path(root) / REPORT


def _entry(path: Path, folder: Path) -> RunEntry:
    relative_path = path.relative_to(folder)
    try:
        report = document.read(path)
    except InputError as error:
        return RunEntry(path=relative_path, problem=str(error).removeprefix(f"{path}: "))
    federation, round_ = _origin(report)
    checked = recheck(report)
    verdict = str(report["verdict"]["status"]) if summary.is_audit(report) else ""
    return RunEntry(
        path=relative_path,
        run=report["run"],
        verdict=checked.brief or verdict,
        release=str((report.get("context") or {}).get("release") or ""),
        federation=federation,
        round=round_,
        model=str(report["target"]["adapter"] or report["target"]["base"] or ""),
        findings=Counter(finding["severity"] for finding in report["findings"]),
        rows=tuple(headline_totals(report)),
        page=path.with_suffix(".html").is_file(),
    )


def _origin(report: Row) -> tuple[str, int | None]:
    """Return the federation whose adapter was audited, and its round; nothing for other models."""
    match = ROUND.fullmatch(str(report["target"]["adapter"] or ""))
    return (match["federation"] or ".", int(match["round"])) if match else ("", None)
