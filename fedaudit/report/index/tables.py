"""The tables of a folder of runs: one line a run, and one a number by round."""

from collections.abc import Sequence
from pathlib import Path

from fedaudit.report.checklist.leaks import LEVELS
from fedaudit.report.index.entries import RunEntry
from fedaudit.report.index.trends import Trend
from fedaudit.report.number_format import format_measurement
from fedaudit.report.tables.table import NONE, Table

NO_VERDICT = "no audit"


def runs_table(entries: Sequence[RunEntry]) -> Table:
    """Return a line for each run that could be read, in their order."""
    rows = tuple(
        (
            folder_of(one),
            str(one.run["command"]),
            one.started[:16].replace("T", " "),
            NONE if one.round is None else str(one.round),
            one.verdict or NO_VERDICT,
            counts(one),
        )
        for one in entries
        if not one.problem
    )
    columns = ("run", "command", "started", "round", "verdict", "high/medium/low")
    return Table(title="Runs", columns=columns, rows=rows, numeric=frozenset({"round"}))


def problems_table(entries: Sequence[RunEntry]) -> list[Table]:
    """Return why reports cannot be read, a line each; none where all can."""
    rows = tuple((str(one.path), one.problem) for one in entries if one.problem)
    return [Table(title="Not read", columns=("report", "why"), rows=rows)] if rows else []


def trend_tables(found: Sequence[Trend], most: int | None = None) -> list[Table]:
    """Return a table a federation: a line for each number, a column for each round.

    Of more than `most` rounds it has the first, the last and some between, evenly apart.
    """
    tables = []
    for federation in dict.fromkeys(one.federation for one in found):
        own = [one for one in found if one.federation == federation]
        every = sorted({number for one in own for number, _ in one.points})
        rounds = _spread(every, most or len(every))
        left = len(every) - len(rounds)
        rows = []
        for one in own:
            known = dict(one.points)
            told = (format_measurement(known[r]) if r in known else NONE for r in rounds)
            rows.append((one.name, *told))
        columns = ("what", *(f"round {number}" for number in rounds))
        title = f"By round: {Path(federation).name or federation}"
        table = Table(
            title=title,
            columns=columns,
            rows=tuple(rows),
            numeric=frozenset(columns[1:]),
            notes=(f"{left} rounds between them are on the page.",) if left else (),
        )
        tables.append(table)
    return tables


def _spread(rounds: Sequence[int], most: int) -> list[int]:
    """Return at most `most` of some rounds (two at least): first, last, and evenly between."""
    if len(rounds) <= most:
        return list(rounds)
    steps = (round(place * (len(rounds) - 1) / (most - 1)) for place in range(most))
    return [rounds[step] for step in steps]


def folder_of(entry: RunEntry) -> str:
    """Return the folder of a run, as the index names it."""
    return str(entry.path.parent)


def counts(entry: RunEntry) -> str:
    """Return how many findings a run has of each severity that is proven; a dash for none."""
    told = [entry.findings.get(level, 0) for level in LEVELS[:3]]
    return "/".join(f"{n:,}" for n in told) if any(told) else NONE
