"""The tables of a folder of runs: one line a run, and one a number by round."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedaudit.api.kind import Table
from fedaudit.report.comparison import row_key
from fedaudit.report.index.entries import RunEntry
from fedaudit.report.number_format import RATES, format_measurement
from fedaudit.report.query import SEVERITIES, Row
from fedaudit.report.tables.assessment import judged_name
from fedaudit.report.tables.table import NONE


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
    for federation in dict.fromkeys(trend.federation for trend in trends):
        selected = [trend for trend in trends if trend.federation == federation]
        every = sorted({number for trend in selected for number, _ in trend.points})
        rounds = _spread(every, most or len(every))
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


def _spread(rounds: Sequence[int], most: int) -> list[int]:
    """Return at most `most` rounds (two at least): first, last, and evenly spaced ones between."""
    if len(rounds) <= most:
        return list(rounds)
    steps = (round(index * (len(rounds) - 1) / (most - 1)) for index in range(most))
    return [rounds[step] for step in steps]


def folder_of(entry: RunEntry) -> str:
    """Return the folder of a run, as the index names it."""
    return str(entry.path.parent)


def counts(entry: RunEntry) -> str:
    """Return how many findings a run has of each severity that is verified; a dash for none."""
    totals = [entry.findings.get(level, 0) for level in SEVERITIES[:3]]
    return "/".join(f"{n:,}" for n in totals) if any(totals) else NONE
