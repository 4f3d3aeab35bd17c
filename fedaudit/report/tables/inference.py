"""The tables of inference: how often a model picks the masked personal data among candidates."""

from collections.abc import Sequence
from dataclasses import replace

from fedaudit.api.kind import Table
from fedaudit.report import query as measurements
from fedaudit.report.number_format import format_hits, format_measurement, percent
from fedaudit.report.query import SOURCES, Row, common_scope, missing_reasons
from fedaudit.report.tables import grouping, keyed
from fedaudit.report.tables.table import NONE, build_table, common_note, display_name

PICKED = "accuracy [95 %]"


def inference(report: Row) -> list[Table]:
    """Return two tables per attack: how often each model picked the truth, in all and by kind."""
    totals = measurements.by_plugin(measurements.inference_rows(report, labelled=False))
    kinds = measurements.by_plugin(measurements.inference_rows(report, labelled=True))
    return [
        *(
            replace(table, notes=(*table.notes, *_guessing(report, rows)))
            for plugin, rows in totals.items()
            for table in _totals(plugin, rows)
        ),
        *(_kinds(plugin, rows) for plugin, rows in kinds.items()),
    ]


def _totals(plugin: str, rows: Sequence[Row]) -> list[Table]:
    """Return one table, or one per number of candidates with a line per variant and key."""
    if not grouping.has_many_lines(rows):
        return [_models(f"Inference: {plugin}", rows)]
    counts: dict[str, list[Row]] = {}
    for row in grouping.preferred_source_rows(rows):
        counts.setdefault(_candidates(row), []).append(row)
    beside = {"base": keyed.comparison(rows, "base"), "chance": _chance}
    return [
        keyed.keyed_lines(f"Inference: {plugin}, {count} candidates", rows, group, PICKED, beside)
        for count, group in counts.items()
    ]


def _models(title: str, rows: Sequence[Row], *columns: str) -> Table:
    shared, scopes = common_scope(rows)
    cells = [
        {
            "label": str(row["scope"].get("label", NONE)),
            "model": display_name(SOURCES, row["scope"].get("source")),
            "candidates": _candidates(row),
            "right": format_hits(row),
            PICKED: format_measurement(row),
            "chance": _chance(row),
            "where": scope,
        }
        for row, scope in zip(rows, scopes, strict=True)
    ]
    return build_table(
        title,
        cells,
        (*columns, "model", "candidates", "right", PICKED, "chance", "where"),
        numeric=("candidates", "right", PICKED, "chance"),
        notes=(*common_note(shared), *missing_reasons(rows)),
    )


def _kinds(plugin: str, rows: Sequence[Row]) -> Table:
    """Return the accuracies by kind of PII for the fewest candidates; others are in the report."""
    fewest = _candidates(rows[0])
    selected = [row for row in rows if _candidates(row) == fewest]
    note = (
        f"With {fewest} candidates; for the others see report.json."
        if len(selected) < len(rows)
        else ""
    )
    title = f"Inference by kind: {plugin}"
    if any("key" in row["scope"] for row in selected):
        return keyed.kinds_by_key(title, selected, (note or f"With {fewest} candidates.",))
    group = grouping.single_group(selected) if grouping.has_many_lines(selected) else selected
    table = _models(title, group, "label")
    return replace(
        table, notes=(*filter(None, (*table.notes, keyed.more_variants(selected), note)),)
    )


def _guessing(report: Row, rows: Sequence[Row]) -> list[str]:
    """Return what the verdict takes for guessing, for each number of candidates, if it is more."""
    rates: dict[str, float] = {}
    for row in rows:
        rate = measurements.guessing_accuracy(report, row)
        if rate is not None and rate > (row["chance"] or 0):
            count = _candidates(row)
            rates[count] = max(rate, rates.get(count, 0))
    return [
        f"Among those of {count} candidates that are not invented guessing is right in "
        f"{percent(rate)}: the verdict compares with that."
        for count, rate in rates.items()
    ]


def _candidates(row: Row) -> str:
    return str(row["scope"].get("candidates", NONE))


def _chance(row: Row) -> str:
    return NONE if row["chance"] is None else percent(row["chance"])
