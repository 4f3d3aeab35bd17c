"""The tables of extraction with prompts: how much came out, and of which kinds it is."""

from collections.abc import Sequence

from fedaudit.api.kind import Table
from fedaudit.report import query as measurements
from fedaudit.report.number_format import format_hits, format_measurement, number
from fedaudit.report.query import SETS, SOURCES, Row, common_scope, missing_reasons, scope_of
from fedaudit.report.tables import grouping, keyed
from fedaudit.report.tables.table import NONE, build_table, common_note, display_name

COVERAGE = "coverage [95 %]"


def extraction(report: Row) -> list[Table]:
    """Return what came out of each model, of each set of PII: a table or two for an attack."""
    groups = measurements.by_plugin(measurements.total_coverages(report))
    return [
        table
        for plugin, rows in groups.items()
        for table in (
            _tables_by_set(plugin, rows)
            if grouping.has_many_lines(rows)
            else [_extraction(report, plugin, rows)]
        )
    ]


def _extraction(report: Row, plugin: str, rows: Sequence[Row]) -> Table:
    shared, scopes = common_scope(rows)
    cells = [
        {
            "model": display_name(SOURCES, row["scope"].get("source")),
            "set": display_name(SETS, row["scope"].get("set")),
            "found": format_hits(row),
            COVERAGE: format_measurement(row),
            "per query": _companion(report, row, "efficiency"),
            "queries": _companion(report, row, "queries"),
            "where": scope,
        }
        for row, scope in zip(rows, scopes, strict=True)
    ]
    return build_table(
        f"Extraction: {plugin}",
        _join_sets(cells),
        ("model", "set", "found", COVERAGE, "per query", "queries", "where"),
        numeric=("found", COVERAGE, "per query", "queries"),
        notes=(*common_note(shared), *missing_reasons(rows)),
    )


def _join_sets(cells: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Return lines in which one line names all sets that have the same number."""
    joined: dict[tuple[str, ...], dict[str, str]] = {}
    for line in cells:
        first = joined.setdefault(
            tuple(line[name] for name in ("model", "found", COVERAGE, "where")), {**line}
        )
        if line["set"] not in first["set"].split(", "):
            first["set"] += f", {line['set']}"
        for name in ("per query", "queries"):
            first[name] = line[name] if first[name] == NONE else first[name]
    return list(joined.values())


def _companion(report: Row, row: Row, metric: str) -> str:
    companion = measurements.companion_row(report, row, metric)
    return NONE if companion is None else number(companion["value"])


def _tables_by_set(plugin: str, rows: Sequence[Row]) -> list[Table]:
    """Return a table for each set of PII, with a line for each variant and key."""
    sets: dict[str, list[Row]] = {}
    for row in grouping.preferred_source_rows(rows):
        subset = row["scope"].get("set")
        suffix = "" if subset is None else f", set {display_name(SETS, subset)}"
        sets.setdefault(f"Extraction: {plugin}{suffix}", []).append(row)
    beside = {source: keyed.comparison(rows, source) for source in ("base", "control")}
    return [
        keyed.keyed_lines(title, rows, group, COVERAGE, beside) for title, group in sets.items()
    ]


def labels(report: Row) -> list[Table]:
    """Return one table per attack: which kinds of PII came out."""
    groups = measurements.by_plugin(measurements.coverages(report, labelled=True))
    return [_kinds(plugin, rows) for plugin, rows in groups.items()]


def _kinds(plugin: str, rows: Sequence[Row]) -> Table:
    title = f"Kinds of PII: {plugin}"
    if any("key" in row["scope"] for row in rows):
        return keyed.kinds_by_key(title, rows)
    selected = measurements.largest_label_rows(
        grouping.single_group(rows) if grouping.has_many_lines(rows) else rows
    )
    scope = selected[0]["scope"]
    subset = SETS.get(scope.get("set"))
    facts = (SOURCES.get(scope.get("source")), subset and f"set {subset}", scope_of(selected[0]))
    return build_table(
        title,
        [
            {
                "label": str(row["scope"]["label"]),
                "found": format_hits(row),
                COVERAGE: format_measurement(row),
            }
            for row in selected
        ],
        numeric=("found", COVERAGE),
        notes=(
            ", ".join(filter(None, facts)),
            keyed.more_variants(rows),
            *missing_reasons(selected),
        ),
    )


RIGHT = "true [95 %]"
NOTE = "Estimated from the attacker's own strings, assuming that others' were learnt as these were."


def candidates(report: Row) -> list[Table]:
    """Return a table for each attack that listed candidates: how many of the first are true."""
    precisions = [row for row in report["measurements"] if row["metric"] == "precision"]
    return [_first(plugin, rows) for plugin, rows in measurements.by_plugin(precisions).items()]


def _first(plugin: str, rows: list[Row]) -> Table:
    has_value = any(row["value"] is not None for row in rows)
    cells = [
        {
            "candidates": f"first {row['scope'].get('top', '?')}",
            "kind": str(row["scope"].get("label", "all")),
            RIGHT: format_measurement(row),
            "where": scope_of(row, {"top"}),
        }
        for row in rows
    ]
    return build_table(
        f"What an attacker would believe: {plugin}",
        cells,
        numeric=(RIGHT,),
        notes=(NOTE if has_value else "", *missing_reasons(rows)),
    )
