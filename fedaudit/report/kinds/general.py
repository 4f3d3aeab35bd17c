"""The table, the sentence and the answer of a kind that does not bring its own."""

from collections.abc import Iterable, Iterator

from fedaudit.api.kind import Answer, Kind, Row, Table
from fedaudit.report import query
from fedaudit.report.checklist.answer import MOST_ROWS, results_text
from fedaudit.report.kinds.registry import is_ours
from fedaudit.report.number_format import count, format_measurement, number
from fedaudit.report.query import scope_text
from fedaudit.report.tables.table import row_table

MEASURED = "value [95 %]"


def tables_of(kinds: Iterable[Kind], report: Row) -> Iterator[Table]:
    """Yield the tables of some kinds, each with its own or a general one."""
    for kind in kinds:
        own = kind.tables(report)
        yield from _tables(kind, report) if own is None else own


def sentences_of(kinds: Iterable[Kind], report: Row) -> Iterator[str]:
    """Yield what was tried and what came of it, by kind; of ours only what they say themselves."""
    for kind in kinds:
        own = kind.sentences(report)
        if own is not None:
            yield from own
        elif not is_ours(kind.name):
            yield from _sentences(kind, report)


def answer_of(kind: Kind, report: Row) -> Answer:
    """Return a report's answer to the question about a kind."""
    if (own := kind.answer(report)) is not None:
        return own
    rows = [row for row in kind.rows(report) if row["value"] is not None]
    if not rows:
        return Answer("open", "It was not measured.")
    return Answer("answered", results_text(rows), tuple(rows[:MOST_ROWS]))


def _tables(kind: Kind, report: Row) -> Iterator[Table]:
    """Yield a table per attack with a line for each row."""
    for plugin, rows in query.by_plugin(kind.rows(report)).items():
        yield row_table(
            f"{kind.title or kind.name}: {plugin}",
            rows,
            {
                "metric": lambda row: row["metric"].replace("_", " "),
                "model": lambda row: query.SOURCES.get(row["scope"].get("source"), ""),
                "n": count,
                MEASURED: format_measurement,
                "chance": lambda row: "" if row["chance"] is None else number(row["chance"]),
                "where": lambda row: scope_text(row, row["scope"].keys() - {"source"}),
            },
            numeric=("n", MEASURED, "chance"),
        )


def _sentences(kind: Kind, report: Row) -> Iterator[str]:
    """Yield a sentence per attack with its first numbers."""
    for plugin, rows in query.by_plugin(kind.rows(report)).items():
        if known := [row for row in rows if row["value"] is not None]:
            yield f"The attack {plugin} measured {results_text(known)}"
