"""The tables of untargeted extraction: without prompts, or in ordinary use."""

from collections.abc import Sequence
from dataclasses import replace

from fedaudit.api.kind import Table
from fedaudit.report import query as measurements
from fedaudit.report.number_format import count, format_hits, format_measurement, number
from fedaudit.report.query import (
    SOURCES,
    Row,
    common_scope,
    companion_row,
    missing_reasons,
    scope_of,
)
from fedaudit.report.tables import grouping, keyed
from fedaudit.report.tables.table import build_table, common_note, display_name

RECALL = "recall [95 %]"
PRECISION = "precision [95 %]"
SHARE = "share [95 %]"

LEAKING = "leaking_answers"
"""The metric of the share of answers that hold a string of the records."""

DETECTIONS = {"verbatim": "word for word"}
"""Values of scope.detection, as people read them; without it a detector of PII looked."""


def untargeted_tables(report: Row) -> list[Table]:
    """Return for each attack what came out of each model, and of which kinds it is."""
    totals = group_by_search(measurements.untargeted_rows(report, labelled=False))
    kinds = group_by_search(measurements.untargeted_rows(report, labelled=True))
    return [
        *(table for name, rows in totals.items() for table in _totals(report, name, rows)),
        *(_kinds(report, name, rows) for name, rows in kinds.items()),
    ]


def group_by_search(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return rows by attack and by how its texts were searched."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        how = row["scope"].get("detection")
        name = row["plugin"] if how is None else f"{row['plugin']}, {display_name(DETECTIONS, how)}"
        groups.setdefault(name, []).append(row)
    return groups


def _totals(report: Row, name: str, rows: Sequence[Row]) -> list[Table]:
    """Return one table, or one of recall and one of precision, with a line per variant and key."""
    title = _title("Extraction without prompts", name, rows)
    if not grouping.has_many_lines(rows):
        return [_models(report, title, rows)]
    beside = {source: keyed.comparison(rows, source) for source in ("base", "control")}
    recall = keyed.keyed_lines(title, rows, grouping.preferred_source_rows(rows), RECALL, beside)
    tables = [replace(recall, notes=(*_texts(report, rows), *recall.notes))]
    precise = [match for row in rows if (match := precision(report, row))]
    if precise:
        of_base = keyed.comparison(precise, "base")
        title = _title("Precision without prompts", name, rows)
        selected = grouping.preferred_source_rows(precise)
        tables.append(keyed.keyed_lines(title, precise, selected, PRECISION, {"base": of_base}))
    return tables


def leaking_answer_tables(report: Row) -> list[Table]:
    """Return how many answers to ordinary requests hold a string of the records, by attack."""
    groups = measurements.by_plugin(leaking_answer_rows(report))
    return [_answers(report, plugin, rows) for plugin, rows in groups.items()]


def leaking_answer_rows(report: Row) -> list[Row]:
    """Return how many answers of each model hold a string of the records, in reading order."""
    return measurements.untargeted_rows(report, labelled=False, metric=LEAKING)


def _answers(report: Row, plugin: str, rows: Sequence[Row]) -> Table:
    shared, scopes = common_scope(rows)
    cells = [
        {
            "model": display_name(SOURCES, row["scope"].get("source")),
            "answers": count(row),
            "with a string": format_hits(row),
            SHARE: format_measurement(row),
            "where": scope,
        }
        for row, scope in zip(rows, scopes, strict=True)
    ]
    return build_table(
        f"Answers in ordinary use that hold a string of the records: {plugin}",
        cells,
        numeric=("answers", "with a string", SHARE),
        notes=(*_asked_requests(report, rows), *common_note(shared), *missing_reasons(rows)),
    )


def _asked_requests(report: Row, rows: Sequence[Row]) -> tuple[str, ...]:
    """Return how many requests were asked, and of how many some answer holds a string."""
    companions = (companion_row(report, row, "leaking_requests") for row in rows)
    notes = {
        f"Requests: {count(row)}, with such an answer: {number(row['hits'])}."
        for row in companions
        if row
    }
    return tuple(sorted(notes)) if len(notes) == 1 else ()


def _title(without_prompts: str, name: str, rows: Sequence[Row]) -> str:
    """Return a table's title; what was asked for something else is not without prompts."""
    ordinary = any("requests" in row["scope"] for row in rows)
    return f"{'Strings that came out in ordinary use' if ordinary else without_prompts}: {name}"


def _models(report: Row, title: str, rows: Sequence[Row]) -> Table:
    """Return recall and precision of every model; `strings` is the n of precision."""
    shared, scopes = common_scope(rows, {"detection"})
    precise = [precision(report, row) for row in rows]
    cells = [
        {
            "model": display_name(SOURCES, row["scope"].get("source")),
            "found": format_hits(row),
            RECALL: format_measurement(row),
            "strings": count(precise_row) if precise_row else "",
            PRECISION: format_measurement(precise_row) if precise_row else "",
            "where": scope,
        }
        for row, precise_row, scope in zip(rows, precise, scopes, strict=True)
    ]
    return build_table(
        title,
        cells,
        numeric=("found", RECALL, "strings", PRECISION),
        notes=(
            *_texts(report, rows),
            *common_note(shared),
            *missing_reasons([*rows, *filter(None, precise)]),
        ),
    )


def precision(report: Row, row: Row) -> Row | None:
    """Return the precision that was measured with the same search as `row`."""
    companion = companion_row(report, row, "extraction_precision")
    same = companion and companion["scope"].get("detection") == row["scope"].get("detection")
    return companion if same else None


def _texts(report: Row, rows: Sequence[Row]) -> tuple[str, ...]:
    """Return how many texts were drawn from each model."""
    counts = {
        (display_name(SOURCES, row["scope"].get("source")), number(companion["value"])): None
        for row in rows
        if (companion := companion_row(report, row, "queries"))
    }
    text = ", ".join(f"{count} ({model})" for model, count in counts)
    return (f"Texts drawn: {text}.",) if text else ()


def _kinds(report: Row, name: str, rows: Sequence[Row]) -> Table:
    """Return recall and precision by kind of what the base does not say, if there is a base.

    Recall goes by the kinds of the records, precision by those of the detector.
    """
    title = f"Kinds of PII without prompts: {name}"
    if any("key" in row["scope"] for row in rows):
        return keyed.kinds_by_key(title, rows)
    best_row = min(grouping.single_group(rows), key=measurements.source_rank)
    selected = [
        row
        for row in rows
        if grouping.scope_without(row, {"label"}) == grouping.scope_without(best_row, {"label"})
    ]
    recalls = {str(row["scope"]["label"]): row for row in selected}
    precisions = _precisions(report, best_row)
    order = sorted(recalls, key=lambda label: (*_size(recalls[label]), label))
    cells = [
        {
            "label": label,
            "found": format_hits(recalls[label]) if label in recalls else "",
            RECALL: format_measurement(recalls[label]) if label in recalls else "",
            "strings": count(precisions[label]) if label in precisions else "",
            PRECISION: format_measurement(precisions[label]) if label in precisions else "",
        }
        for label in dict.fromkeys((*order, *sorted(precisions)))
    ]
    return build_table(
        title,
        cells,
        numeric=("found", RECALL, "strings", PRECISION),
        notes=(
            f"Model: {display_name(SOURCES, best_row['scope'].get('source'))}.",
            *common_note(scope_of(best_row, {"detection"})),
            keyed.more_variants(rows),
            *missing_reasons([*recalls.values(), *precisions.values()]),
        ),
    )


def _precisions(report: Row, like: Row) -> dict[str, Row]:
    """Return the precisions by kind that have the scope of a recall by kind."""
    scope = {key: value for key, value in like["scope"].items() if key != "label"}
    return {
        str(row["scope"]["label"]): row
        for row in report["measurements"]
        if (row["kind"], row["metric"]) == ("extraction", "extraction_precision")
        and row["plugin"] == like["plugin"]
        and "label" in row["scope"]
        and {key: value for key, value in row["scope"].items() if key != "label"} == scope
    }


def _size(row: Row) -> tuple[int, int]:
    return -(row["hits"] or 0), -(row["n"] or 0)
