"""The table of an attribution's clients, whom the protocol flags or not."""

from collections.abc import Sequence

from fedaudit.api.kind import Table
from fedaudit.api.records import Measurement
from fedaudit.report.attribution_parts import attribution_rows
from fedaudit.report.number_format import number
from fedaudit.report.query import Row, missing_reasons
from fedaudit.report.tables.grouping import client_of
from fedaudit.report.tables.table import NONE, build_table, shorten
from fedaudit.report.verdict import attribution as flags
from fedaudit.report.verdict.attribution import TestedClient

MOST_CLIENTS = 40
OWN_LIMITS = (
    "What Z must exceed is each client's own: its luck, and what its estimates may hold of others'"
    " marks."
)
ATTRIBUTES = (
    "In brackets: right answers by the global models with which the rounds began. Attributes are"
    " numbered as in the file of marks. One attribute alone flags no client: it may be a fact of"
    " another owner's."
)
OWN_PART = (
    "Own part: how much of a flagged client's Z comes from its own update, if answers grow in"
    " proportion to what an estimate contains. All intervals hold together. It decides nothing."
)


def client_table(rows: Sequence[Row]) -> Table:
    """Return a line for each client, the highest Z first."""
    tests = flags.strongest_tests(client_tests(rows))
    adjusted = {
        (client_of(row), str(row["scope"]["mark"])): row["value"]
        for row in rows_of_part(rows, "client", "p_value")
        if row["scope"].get("adjusted") == "holm"
    }
    contributions = {
        (client_of(row), str(row["scope"]["mark"])): row
        for row in rows_of_part(rows, "client", "contribution")
    }
    cells = [
        {
            "client": test.client,
            "mark": test.mark,
            "Z": format_z(test.z),
            "must exceed": NONE if test.threshold is None else number(test.threshold),
            "own part [95 %]": _own_part(contributions.get((test.client, test.mark))),
            "Holm p": p_value_cell(adjusted.get((test.client, test.mark))),
            "rounds": "" if test.rounds is None else number(test.rounds),
            "flagged": yes_or_no(test.flagged) if test.decided else NONE,
        }
        for test in tests
    ]
    table = build_table(
        "Attribution: clients",
        cells,
        numeric=("Z", "must exceed", "own part [95 %]", "Holm p", "rounds"),
        notes=(
            _own_limits(tests),
            OWN_PART if contributions else "",
            *missing_reasons(rows_of_part(rows, "client")),
        ),
    )
    return shorten(table, max(MOST_CLIENTS, sum(test.flagged for test in tests)))


def attribute_table(rows: Sequence[Row]) -> Table:
    """Return right answers by attribute, under each client's mark with the strongest evidence."""
    tests = flags.strongest_tests(client_tests(rows))
    answers: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows_of_part(rows, "attribute"):
        line = answers.setdefault((client_of(row), str(row["scope"]["mark"])), {})
        line[f"attribute {row['scope']['attribute']}"] = _answers(row)
    cells = [
        {"client": test.client, "mark": test.mark, **answers[test.client, test.mark]}
        for test in tests
        if (test.client, test.mark) in answers
    ]
    names = tuple(dict.fromkeys(name for line in cells for name in line))
    table = build_table(
        "Attribution: right answers by attribute",
        cells,
        names,
        numeric=names[2:],
        notes=(ATTRIBUTES if cells else "",),
    )
    return shorten(table, max(MOST_CLIENTS, sum(test.flagged for test in tests)))


def _answers(row: Row) -> str:
    """Return the right answers of all, and in brackets those of the global models."""
    if row["hits"] is None or row["n"] is None:
        return NONE
    before = "" if row["baseline"] is None else f" ({number(row['baseline'])})"
    return f"{row['hits']:,} of {row['n']:,}{before}"


def client_tests(rows: Sequence[Row]) -> list[TestedClient]:
    """Return the protocol's tests of clients among rows of a report."""
    return flags.tested_clients(Measurement(**row) for row in rows)


def format_z(value: float | None) -> str:
    """Return a statistic as text: two decimal places, or three digits if it is huge."""
    if value is None:
        return NONE
    return f"{value:.2f}" if abs(value) < 10_000 else f"{value:.3g}"


def _own_part(row: Row | None) -> str:
    """Return a client's own contribution to its Z, with its interval; empty if unknown."""
    if row is None:
        return ""
    if row["value"] is None:
        return NONE
    return f"{row['value']:.1f} [{row['low']:.1f}, {row['high']:.1f}]"


def _own_limits(tests: Sequence[TestedClient]) -> str:
    """Return why clients have different thresholds, if they do."""
    limits = {test.threshold for test in tests if test.threshold is not None}
    return OWN_LIMITS if len(limits) > 1 else ""


def rows_of_part(rows: Sequence[Row], part: str, *metrics: str) -> list[Row]:
    """Return the rows of one part of an attribution, by the names of `report.query`."""
    part_rows = attribution_rows({"measurements": rows}, part)
    return [row for row in part_rows if not metrics or row["metric"] in metrics]


def p_value_cell(value: float | None) -> str:
    """Return a p value as text."""
    return NONE if value is None else number(value)


def yes_or_no(flag: bool) -> str:
    """Return a flag as "yes" or "no"."""
    return "yes" if flag else "no"
