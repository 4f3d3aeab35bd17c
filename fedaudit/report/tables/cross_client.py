"""The tables of an audit in which every client was the attacker: who gets at whose data."""

from collections.abc import Mapping, Sequence
from functools import partial

from fedaudit.api.kind import Table
from fedaudit.report import query as measurements
from fedaudit.report.number_format import format_hits, format_measurement
from fedaudit.report.query import SETS, Row, common_scope, group_by
from fedaudit.report.tables.table import (
    beside,
    cell_of,
    common_note,
    display_name,
    model_name,
    row_table,
    share_text,
    shorten,
)

COVERAGE, CONTROL = "coverage [95 %]", "control [95 %]"
MOST_WIDE = 8
"""The maximum number of victims side by side; with more, only the pairs are shown."""
MOST_PAIRS = 100
PAIR = ("attacker", "victim")

Pair = tuple[str, str]


def matrix_tables(report: Row) -> list[Table]:
    """Return two tables per attack: attackers against victims, and every pair with its controls."""
    tables = []
    for rows in _groups(report):
        title = ", ".join(filter(None, (rows[0]["plugin"], common_scope(rows, PAIR)[0])))
        coverages = _headline_coverages(rows)
        tables += [*_square(title, coverages), _pairs(title, coverages, rows)]
    return tables


def without_pairs(report: Row) -> Row:
    """Return the report without measurements of one pair of clients or of one task.

    Those have tables of their own.
    """
    remaining = [
        row
        for row in report["measurements"]
        if row["kind"] != "extraction"
        or (not _is_pair(row) and (row["metric"] != "coverage" or "task" not in row["scope"]))
    ]
    return {**report, "measurements": remaining}


def charted_report(report: Row) -> Row:
    """Return the report with only the most telling measurement of each pair of clients."""
    headline_rows = [row for rows in _groups(report) for row in _headline_coverages(rows).values()]
    unpaired = without_pairs(report)
    return {**unpaired, "measurements": [*unpaired["measurements"], *headline_rows]}


def _is_pair(row: Row) -> bool:
    return row["kind"] == "extraction" and set(PAIR).issubset(row["scope"])


def _groups(report: Row) -> list[list[Row]]:
    """Return the coverages of pairs, grouped by attack and all that varies but source and set."""
    rows = filter(_is_pair, measurements.total_coverages(report))
    groups = group_by(rows, lambda row: (row["plugin"], measurements.scope_of(row, PAIR)))
    return list(groups.values())


def _headline_coverages(rows: Sequence[Row]) -> dict[Pair, Row]:
    """Return the headline coverage of each pair: beyond the base, of all targets."""

    def rank(row: Row) -> tuple[int, int]:
        return measurements.source_rank(row), measurements.set_rank(row)

    best: dict[Pair, Row] = {}
    for row in rows:
        pair = _client(row, "attacker"), _client(row, "victim")
        if pair not in best or rank(row) < rank(best[pair]):
            best[pair] = row
    return best


def _square(title: str, coverages: Mapping[Pair, Row]) -> list[Table]:
    """Return the table of attackers by victims, unless it is too wide."""
    attackers, victims = (list(dict.fromkeys(names)) for names in zip(*coverages, strict=True))
    # Clients that are both attacker and victim stand in one order, before the other victims.
    victims = [
        *(name for name in attackers if name in victims),
        *sorted(set(victims) - {*attackers}),
    ]
    if len(victims) > MOST_WIDE:
        return []
    rows = tuple(
        (attacker, *(cell_of(coverages.get((attacker, victim)), share_text) for victim in victims))
        for attacker in attackers
    )
    notes = ("A line is an attacker, a column its victim; intervals stand with the pairs below.",)
    # Not by build_table: a client's name may equal a column's, and empty columns mean something.
    return [
        Table(
            title=f"Attackers and victims: {title}",
            columns=("attacker", *victims),
            rows=rows,
            numeric=frozenset(victims) - {"attacker"},
            notes=notes,
        )
    ]


def _client(row: Row, role: str) -> str:
    return str(row["scope"][role])


def _pairs(title: str, coverages: Mapping[Pair, Row], rows: Sequence[Row]) -> Table:
    """Return a line per pair: what came out, and the results of the base and of guessing."""
    shown = list(coverages.values())
    models = list(dict.fromkeys(str(row["scope"].get("source")) for row in shown))
    sets = list(dict.fromkeys(display_name(SETS, row["scope"].get("set")) for row in shown))
    table = row_table(
        f"Pairs: {title}",
        shown,
        {
            **{role: partial(_client, role=role) for role in PAIR},
            "model": lambda row: model_name(row) if len(models) > 1 else "",
            "found": format_hits,
            COVERAGE: format_measurement,
            "base": beside(rows, "base"),
            CONTROL: beside(rows, "control", format_measurement),
        },
        numeric=("found", COVERAGE, "base", CONTROL),
        notes=(
            f"Model: {model_name(shown[0])}." if len(models) == 1 else "",
            *common_note(f"set {sets[0]}" if len(sets) == 1 else ""),
        ),
    )
    return shorten(table, MOST_PAIRS)
