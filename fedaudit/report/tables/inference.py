"""The tables of inference: how often a model picks the masked personal data among candidates."""

from collections.abc import Sequence
from dataclasses import replace

from fedaudit.api.kind import Table
from fedaudit.report import query as measurements
from fedaudit.report.number_format import format_hits, format_measurement, percent
from fedaudit.report.query import Row, group_by
from fedaudit.report.tables import grouping, keyed
from fedaudit.report.tables.table import NONE, model_name, row_table

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
    counts = group_by(grouping.preferred_source_rows(rows), _candidates)
    beside = {"base": keyed.comparison(rows, "base"), "chance": _chance}
    return [
        keyed.keyed_lines(f"Inference: {plugin}, {count} candidates", rows, group, PICKED, beside)
        for count, group in counts.items()
    ]


def _models(title: str, rows: Sequence[Row], *, labelled: bool = False) -> Table:
    label = {"label": lambda row: str(row["scope"].get("label", NONE))} if labelled else {}
    return row_table(
        title,
        rows,
        {
            **label,
            "model": model_name,
            "candidates": _candidates,
            "right": format_hits,
            PICKED: format_measurement,
            "chance": _chance,
        },
        numeric=("candidates", "right", PICKED, "chance"),
        hidden=(),
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
    table = _models(title, group, labelled=True)
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
