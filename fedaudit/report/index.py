"""Many reports beside each other: what is in a folder of runs, and trends over rounds."""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.api.kind import Table
from fedaudit.report import document
from fedaudit.report.charts.z_by_round import shown_rounds
from fedaudit.report.checklist.attackers import headline_totals
from fedaudit.report.comparison import row_key
from fedaudit.report.number_format import RATES, format_measurement
from fedaudit.report.query import SEVERITIES, Row, group_by
from fedaudit.report.tables.assessment import judged_name
from fedaudit.report.tables.table import NONE
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """One number of a federation by round, the rounds in their order."""

    federation: str
    name: str
    points: tuple[tuple[int, Row], ...]

    @property
    def share(self) -> bool:
        """Whether the number is a share, so that it can be drawn on one scale with others."""
        return self.points[0][1]["metric"] in RATES


def trends(entries: Sequence[RunEntry]) -> list[Trend]:
    """Return every number that two or more rounds of one federation have.

    Where a round was audited more than once the newest run counts.
    """
    series: dict[tuple[str, tuple[str, ...]], dict[int, tuple[str, Row]]] = {}
    for entry in entries:
        if entry.round is None:
            continue
        for row in entry.rows:
            points = series.setdefault((entry.federation, row_key(row)), {})
            if entry.round not in points or points[entry.round][0] < entry.start_time:
                points[entry.round] = entry.start_time, row
    return [
        Trend(
            federation=federation,
            name=judged_name({"rule": "", "measurement": next(iter(points.values()))[1]}),
            points=tuple((number, row) for number, (_, row) in sorted(points.items())),
        )
        for (federation, _), points in sorted(series.items(), key=lambda pair: pair[0])
        if len(points) > 1
    ]


NO_VERDICT = "no audit"


def runs_table(entries: Sequence[RunEntry]) -> Table:
    """Return a line for each run that could be read, in their order."""
    rows = tuple(
        (
            folder_of(entry),
            str(entry.run["command"]),
            entry.start_time[:16].replace("T", " "),
            NONE if entry.round is None else str(entry.round),
            entry.verdict or NO_VERDICT,
            counts(entry),
        )
        for entry in entries
        if not entry.problem
    )
    columns = ("run", "command", "started", "round", "verdict", "high/medium/low")
    return Table(title="Runs", columns=columns, rows=rows, numeric=frozenset({"round"}))


def problems_table(entries: Sequence[RunEntry]) -> list[Table]:
    """Return a line for each unreadable report with the reason; no table if all could be read."""
    rows = tuple((str(entry.path), entry.problem) for entry in entries if entry.problem)
    return [Table(title="Not read", columns=("report", "why"), rows=rows)] if rows else []


def trend_tables(trends: Sequence[Trend], most: int | None = None) -> list[Table]:
    """Return a table per federation: a line for each number, a column for each round.

    With more than `most` rounds, a table has the first, the last and evenly spaced ones between.
    """
    tables = []
    for federation, selected in group_by(trends, lambda trend: trend.federation).items():
        every = sorted({number for trend in selected for number, _ in trend.points})
        rounds = shown_rounds(every, most or len(every))
        remaining = len(every) - len(rounds)
        rows = []
        for trend in selected:
            points = dict(trend.points)
            cells = (format_measurement(points[r]) if r in points else NONE for r in rounds)
            rows.append((trend.name, *cells))
        columns = ("what", *(f"round {number}" for number in rounds))
        title = f"By round: {Path(federation).name or federation}"
        table = Table(
            title=title,
            columns=columns,
            rows=tuple(rows),
            numeric=frozenset(columns[1:]),
            notes=(f"{remaining} rounds between them are on the page.",) if remaining else (),
        )
        tables.append(table)
    return tables


def folder_of(entry: RunEntry) -> str:
    """Return the folder of a run, as the index names it."""
    return str(entry.path.parent)


def counts(entry: RunEntry) -> str:
    """Return how many findings a run has of each severity that is verified; a dash for none."""
    totals = [entry.findings.get(level, 0) for level in SEVERITIES[:3]]
    return "/".join(f"{n:,}" for n in totals) if any(totals) else NONE
