"""The tables of extraction with prompts: how much came out, and of which kinds it is."""

from collections.abc import Sequence

from fedaudit.report import query as measurements
from fedaudit.report.number_format import found, measured, number
from fedaudit.report.query import SETS, SOURCES, Row, place, places, reasons
from fedaudit.report.tables import grouping, keyed
from fedaudit.report.tables.table import NONE, Table, laid_out, named, throughout

COVERAGE = "coverage [95 %]"


def extraction(report: Row) -> list[Table]:
    """Return what came out of each model, of each set of PII: a table or two for an attack."""
    groups = measurements.by_plugin(measurements.totals(report))
    return [
        table
        for plugin, rows in groups.items()
        for table in (
            _viewed(plugin, rows) if grouping.viewed(rows) else [_extraction(report, plugin, rows)]
        )
    ]


def _extraction(report: Row, plugin: str, rows: Sequence[Row]) -> Table:
    shared, own = places(rows)
    cells = [
        {
            "model": named(SOURCES, row["scope"].get("source")),
            "set": named(SETS, row["scope"].get("set")),
            "found": found(row),
            COVERAGE: measured(row),
            "per query": _companion(report, row, "efficiency"),
            "queries": _companion(report, row, "queries"),
            "where": at,
        }
        for row, at in zip(rows, own, strict=True)
    ]
    return laid_out(
        f"Extraction: {plugin}",
        cells,
        ("model", "set", "found", COVERAGE, "per query", "queries", "where"),
        numeric=("found", COVERAGE, "per query", "queries"),
        notes=(*throughout(shared), *reasons(rows)),
    )


def _companion(report: Row, row: Row, metric: str) -> str:
    one = measurements.companion(report, row, metric)
    return NONE if one is None else number(one["value"])


def _viewed(plugin: str, rows: Sequence[Row]) -> list[Table]:
    """Return a table for each set of PII, with a line for each variant and key."""
    sets: dict[str, list[Row]] = {}
    for row in grouping.telling(rows):
        subset = row["scope"].get("set")
        of = "" if subset is None else f", set {named(SETS, subset)}"
        sets.setdefault(f"Extraction: {plugin}{of}", []).append(row)
    beside = {source: keyed.compared(rows, source) for source in ("base", "control")}
    return [keyed.viewed(title, rows, some, COVERAGE, beside) for title, some in sets.items()]


def labels(report: Row) -> list[Table]:
    """Return one table per attack: which kinds of PII came out."""
    groups = measurements.by_plugin(measurements.coverages(report, labelled=True))
    return [_kinds(plugin, rows) for plugin, rows in groups.items()]


def _kinds(plugin: str, rows: Sequence[Row]) -> Table:
    title = f"Kinds of PII: {plugin}"
    if any("key" in row["scope"] for row in rows):
        return keyed.kinds(title, rows)
    some = measurements.most_telling(grouping.one(rows) if grouping.viewed(rows) else rows)
    scope = some[0]["scope"]
    subset = SETS.get(scope.get("set"))
    told = (SOURCES.get(scope.get("source")), subset and f"set {subset}", place(some[0]))
    return laid_out(
        title,
        [
            {"label": str(row["scope"]["label"]), "found": found(row), COVERAGE: measured(row)}
            for row in some
        ],
        ("label", "found", COVERAGE),
        numeric=("found", COVERAGE),
        notes=(", ".join(filter(None, told)), keyed.more_variants(rows), *reasons(some)),
    )
