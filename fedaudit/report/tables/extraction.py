"""The tables of extraction: how much came out with prompts, without them and in ordinary use."""

from collections.abc import Sequence
from dataclasses import replace

from fedaudit.api.kind import Table
from fedaudit.report import query as measurements
from fedaudit.report.number_format import count, format_hits, format_measurement, number
from fedaudit.report.query import (
    SETS,
    SOURCES,
    Row,
    common_scope,
    companion_row,
    group_by,
    missing_reasons,
    scope_but,
    scope_of,
    source_rank,
)
from fedaudit.report.tables import grouping, keyed
from fedaudit.report.tables.table import (
    NONE,
    build_table,
    cell_of,
    common_note,
    display_name,
    model_name,
    row_table,
    shorten,
    value_text,
)

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
            "model": model_name(row),
            "set": display_name(SETS, row["scope"].get("set")),
            "found": format_hits(row),
            COVERAGE: format_measurement(row),
            "per query": cell_of(companion_row(report, row, "efficiency"), value_text),
            "queries": cell_of(companion_row(report, row, "queries"), value_text),
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


def _tables_by_set(plugin: str, rows: Sequence[Row]) -> list[Table]:
    """Return a table for each set of PII, with a line for each variant and key."""

    def title(row: Row) -> str:
        subset = row["scope"].get("set")
        suffix = "" if subset is None else f", set {display_name(SETS, subset)}"
        return f"Extraction: {plugin}{suffix}"

    sets = group_by(grouping.preferred_source_rows(rows), title)
    beside = {source: keyed.comparison(rows, source) for source in ("base", "control")}
    return [keyed.keyed_lines(name, rows, group, COVERAGE, beside) for name, group in sets.items()]


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
    return row_table(
        title,
        selected,
        {
            "label": lambda row: str(row["scope"]["label"]),
            "found": format_hits,
            COVERAGE: format_measurement,
        },
        numeric=("found", COVERAGE),
        notes=(", ".join(filter(None, facts)), keyed.more_variants(rows)),
    )


RIGHT = "true [95 %]"
NOTE = "Estimated from the attacker's own strings, assuming that others' were learnt as these were."


def candidates(report: Row) -> list[Table]:
    """Return a table for each attack that listed candidates: how many of the first are true."""
    precisions = [row for row in report["measurements"] if row["metric"] == "precision"]
    return [_first(plugin, rows) for plugin, rows in measurements.by_plugin(precisions).items()]


def _first(plugin: str, rows: list[Row]) -> Table:
    return row_table(
        f"What an attacker would believe: {plugin}",
        rows,
        {
            "candidates": lambda row: f"first {row['scope'].get('top', '?')}",
            "kind": lambda row: str(row["scope"].get("label", "all")),
            RIGHT: format_measurement,
            "where": lambda row: scope_of(row, {"top"}),
        },
        numeric=(RIGHT,),
        notes=(NOTE if any(row["value"] is not None for row in rows) else "",),
    )


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
        *(_unasked_kinds(report, name, rows) for name, rows in kinds.items()),
    ]


def group_by_search(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return rows by attack and by how its texts were searched."""

    def name(row: Row) -> str:
        how = row["scope"].get("detection")
        return f"{row['plugin']}{'' if how is None else f', {display_name(DETECTIONS, how)}'}"

    return group_by(rows, name)


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
    return row_table(
        f"Answers in ordinary use that hold a string of the records: {plugin}",
        rows,
        {
            "model": model_name,
            "answers": count,
            "with a string": format_hits,
            SHARE: format_measurement,
        },
        numeric=("answers", "with a string", SHARE),
        hidden=(),
        notes=_asked_requests(report, rows),
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
    return row_table(
        title,
        rows,
        {
            "model": model_name,
            "found": format_hits,
            RECALL: format_measurement,
            "strings": lambda row: cell_of(precision(report, row), count, ""),
            PRECISION: lambda row: cell_of(precision(report, row), format_measurement, ""),
        },
        numeric=("found", RECALL, "strings", PRECISION),
        hidden={"detection"},
        notes=_texts(report, rows),
        unmeasured=(*rows, *filter(None, (precision(report, row) for row in rows))),
    )


def precision(report: Row, row: Row) -> Row | None:
    """Return the precision that was measured with the same search as `row`."""
    companion = companion_row(report, row, "extraction_precision")
    same = companion and companion["scope"].get("detection") == row["scope"].get("detection")
    return companion if same else None


def _texts(report: Row, rows: Sequence[Row]) -> tuple[str, ...]:
    counts = {
        (model_name(row), number(companion["value"])): None
        for row in rows
        if (companion := companion_row(report, row, "queries"))
    }
    text = ", ".join(f"{count} ({model})" for model, count in counts)
    return (f"Texts drawn: {text}.",) if text else ()


def _unasked_kinds(report: Row, name: str, rows: Sequence[Row]) -> Table:
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
            "found": cell_of(recalls.get(label), format_hits, ""),
            RECALL: cell_of(recalls.get(label), format_measurement, ""),
            "strings": cell_of(precisions.get(label), count, ""),
            PRECISION: cell_of(precisions.get(label), format_measurement, ""),
        }
        for label in dict.fromkeys((*order, *sorted(precisions)))
    ]
    return build_table(
        title,
        cells,
        numeric=("found", RECALL, "strings", PRECISION),
        notes=(
            f"Model: {model_name(best_row)}.",
            *common_note(scope_of(best_row, {"detection"})),
            keyed.more_variants(rows),
            *missing_reasons([*recalls.values(), *precisions.values()]),
        ),
    )


def _precisions(report: Row, like: Row) -> dict[str, Row]:
    """Return the precisions by kind that have the scope of a recall by kind."""
    return {
        str(row["scope"]["label"]): row
        for row in report["measurements"]
        if (row["kind"], row["metric"]) == ("extraction", "extraction_precision")
        and row["plugin"] == like["plugin"]
        and "label" in row["scope"]
        and scope_but(row, "label") == scope_but(like, "label")
    }


def _size(row: Row) -> tuple[int, int]:
    return -(row["hits"] or 0), -(row["n"] or 0)


EQUAL = "at equal budget"
EQUAL_NOTE = "At equal budget: both with as many prefixes as stand in brackets."
SHOWN_KEYS = frozenset({"source", "set", "attacks", "not", "only", "budget", "budgets", "samples"})
MAX_ROWS = 20


def overlaps(report: Row) -> list[Table]:
    """Return what attacks found alone and together, and what each found that another did not."""
    rows = [
        row
        for row in report["measurements"]
        if (row["kind"], row["metric"]) == ("extraction", "overlap")
    ]
    if not rows:
        return []
    best_rank = min(map(source_rank, rows))
    top_rows = [row for row in rows if source_rank(row) == best_rank]
    selected = [row for row in top_rows if _other_keys(row) == _other_keys(top_rows[0])]
    where = measurements.scope_of(selected[0], SHOWN_KEYS)
    notes = (
        f"Model: {model_name(selected[0])}.",
        f"Of {where}; for others see report.json." if len(selected) < len(top_rows) else "",
    )
    return [table for table in (_regions(selected, notes), _pairs(selected)) if table.rows]


def _other_keys(row: Row) -> set[tuple[str, str]]:
    return {(key, str(value)) for key, value in row["scope"].items() if key not in SHOWN_KEYS}


def _regions(rows: Sequence[Row], notes: Sequence[str]) -> Table:
    table = row_table(
        "Found by these attacks and no other",
        [row for row in rows if "only" in row["scope"] and row["hits"]],
        {
            "found by": lambda row: str(row["scope"]["only"]),
            "found": format_hits,
            SHARE: format_measurement,
        },
        numeric=("found", SHARE),
        notes=notes,
        unmeasured=(),
    )
    return shorten(table, MAX_ROWS)


def _pairs(rows: Sequence[Row]) -> Table:
    pairs = [row for row in rows if {"attacks", "not"} <= row["scope"].keys()]
    table = row_table(
        "What one attack found and another did not",
        [
            row
            for row in pairs
            if not measurements.is_sweep(row) and row["scope"].get("budgets") != "equal"
        ],
        {
            "found by": lambda row: str(row["scope"]["attacks"]),
            "not by": lambda row: str(row["scope"]["not"]),
            "found": format_hits,
            SHARE: format_measurement,
            EQUAL: lambda row: _equal(row, pairs),
        },
        numeric=("found", SHARE, EQUAL),
        notes=(EQUAL_NOTE,),
        unmeasured=pairs,
    )
    return shorten(table, MAX_ROWS)


def _equal(row: Row, pairs: Sequence[Row]) -> str:
    """Return the share at the largest budget that both attacks have, and that budget.

    A mean over seeds has none where it was another number in each.
    """
    keys = frozenset({"budget", "budgets", "samples"})
    equal = (pair for pair in pairs if pair["scope"].get("budgets") == "equal")
    same = (
        o for o in equal if grouping.scope_without(o, keys) == grouping.scope_without(row, keys)
    )
    last = next(same, None)
    if last is None:
        return ""
    budget = last["scope"].get("budget")
    return format_hits(last) if budget is None else f"{format_hits(last)} ({budget:,})"
