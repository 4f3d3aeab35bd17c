"""The tables of a report, as plain text cells that any renderer can lay out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedaudit.report import rows as measurements
from fedaudit.report.figures import found, measured, number, percent
from fedaudit.report.redaction import shown
from fedaudit.report.rows import SETS, SOURCES, UTILITY, Row, place, places, reasons

SEVERITIES = ("high", "medium", "low", "unverified")
HOLDS = {True: "yes", False: "no", None: "not measured"}
NONE = "-"
"""A cell of something that the row does not have."""

INTERVAL = "coverage [95 %]"
PICKED = "accuracy [95 %]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A titled table; columns named in `numeric` are aligned to the right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def extraction(report: Row) -> list[Table]:
    """Return one table per attack: what came out of each model, of each set of PII."""
    groups = measurements.by_plugin(measurements.totals(report))
    return [_extraction(report, plugin, rows) for plugin, rows in groups.items()]


def _extraction(report: Row, plugin: str, rows: Sequence[Row]) -> Table:
    shared, own = places(rows)
    return Table(
        title=f"Extraction: {plugin}",
        columns=_columns("model", "set", "found", INTERVAL, "per query", "queries", own=own),
        rows=tuple(
            (*_extraction_cells(report, row), *_own(at, own))
            for row, at in zip(rows, own, strict=True)
        ),
        numeric=frozenset({"found", INTERVAL, "per query", "queries"}),
        notes=(*_throughout(shared), *reasons(rows)),
    )


def _extraction_cells(report: Row, row: Row) -> tuple[str, ...]:
    scope = row["scope"]
    companions = (measurements.companion(report, row, name) for name in ("efficiency", "queries"))
    return (
        _named(SOURCES, scope.get("source")),
        _named(SETS, scope.get("set")),
        found(row),
        measured(row),
        *(NONE if one is None else number(one["value"]) for one in companions),
    )


def labels(report: Row) -> list[Table]:
    """Return one table per attack: which kinds of PII came out."""
    return [_labels(rows) for rows in measurements.telling_labels(report)]


def _labels(rows: Sequence[Row]) -> Table:
    scope = rows[0]["scope"]
    subset = SETS.get(scope.get("set"))
    told = (SOURCES.get(scope.get("source")), subset and f"set {subset}", place(rows[0]))
    return Table(
        title=f"Kinds of PII: {rows[0]['plugin']}",
        columns=("label", "found", INTERVAL),
        rows=tuple((str(row["scope"]["label"]), found(row), measured(row)) for row in rows),
        numeric=frozenset({"found", INTERVAL}),
        notes=tuple(filter(None, (", ".join(filter(None, told)), *reasons(rows)))),
    )


def inference(report: Row) -> list[Table]:
    """Return two tables per attack: how often each model picked the truth, in all and by kind."""
    totals = measurements.by_plugin(measurements.inference(report, labelled=False))
    kinds = measurements.by_plugin(measurements.inference(report, labelled=True))
    tables = [_inference(f"Inference: {plugin}", rows) for plugin, rows in totals.items()]
    return tables + [_inference_kinds(plugin, rows) for plugin, rows in kinds.items()]


def _inference(title: str, rows: Sequence[Row], *columns: str) -> Table:
    shared, own = places(rows)
    columns = (*columns, "model", "candidates", "right", PICKED, "chance")
    return Table(
        title=title,
        columns=_columns(*columns, own=own),
        rows=tuple(
            (*_inference_cells(row, columns), *_own(at, own))
            for row, at in zip(rows, own, strict=True)
        ),
        numeric=frozenset({"candidates", "right", PICKED, "chance"}),
        notes=(*_throughout(shared), *reasons(rows)),
    )


def _inference_cells(row: Row, columns: Sequence[str]) -> list[str]:
    scope = row["scope"]
    cells = {
        "label": str(scope.get("label", NONE)),
        "model": _named(SOURCES, scope.get("source")),
        "candidates": str(scope.get("candidates", NONE)),
        "right": found(row),
        PICKED: measured(row),
        "chance": NONE if row["chance"] is None else percent(row["chance"]),
    }
    return [cells[column] for column in columns]


def _inference_kinds(plugin: str, rows: Sequence[Row]) -> Table:
    """Return the accuracies by kind of PII for the fewest candidates; others are in the report."""
    fewest = rows[0]["scope"].get("candidates")
    some = [row for row in rows if row["scope"].get("candidates") == fewest]
    table = _inference(f"Inference by kind: {plugin}", some, "label")
    more = (f"With {fewest} candidates; for the others see report.json.",)
    return replace(table, notes=(*table.notes, *more)) if len(some) < len(rows) else table


def utility(report: Row) -> list[Table]:
    """Return how well each model does its tasks: a table for what is measured in the same way."""
    rows = measurements.utility(report)
    shared, own = places(rows)
    lines: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row, at in zip(rows, own, strict=True):
        task, model = str(row["scope"].get("task", NONE)), row["scope"].get("source")
        lines.setdefault((task, _named(SOURCES, model), at), {})[row["metric"]] = row
    alike: dict[tuple[str, ...], dict[tuple[str, str, str], dict[str, Row]]] = {}
    for key, line in lines.items():
        alike.setdefault(tuple(name for name in UTILITY if name in line), {})[key] = line
    return [_utility(metrics, some, shared) for metrics, some in alike.items()]


def _utility(
    metrics: tuple[str, ...], lines: Mapping[tuple[str, str, str], Mapping[str, Row]], shared: str
) -> Table:
    own = [at for _, _, at in lines]
    rows = [row for line in lines.values() for row in line.values()]
    return Table(
        title=f"Utility: {', '.join(metrics)}",
        columns=_columns("task", "model", *metrics, "n", own=own),
        rows=tuple(
            (task, model, *_utility_cells(line, metrics), *_own(at, own))
            for (task, model, at), line in lines.items()
        ),
        numeric=frozenset((*metrics, "n")),
        notes=(*_throughout(shared), *reasons(rows)),
    )


def _utility_cells(line: Mapping[str, Row], metrics: Sequence[str]) -> tuple[str, ...]:
    cells = (measured(line[name]) for name in metrics)
    return (*cells, "/".join(dict.fromkeys(_count(row) for row in line.values())))


def others(report: Row) -> list[Table]:
    """Return the table of every measurement that no other table shows."""
    rows = measurements.others(report)
    table = Table(
        title="Other measurements",
        columns=("metric", "by", "value [95 %]", "n", "where"),
        rows=tuple(
            (row["metric"], row["plugin"], measured(row), _count(row), _everywhere(row))
            for row in rows
        ),
        numeric=frozenset({"value [95 %]", "n"}),
        notes=reasons(rows),
    )
    return [table] if rows else []


def findings(report: Row, most: int) -> list[Table]:
    """Return the table of the worst findings, masked, and how many more there are."""
    worst = sorted(report["findings"], key=lambda one: SEVERITIES.index(one["severity"]))
    more = len(worst) - most
    by = dict.fromkeys(one["measurement"] for one in worst)
    names = _evidence_names(worst)
    table = Table(
        title="Findings",
        columns=("severity", "leak", *(("by",) if len(by) > 1 else ()), *names, "id"),
        rows=tuple(
            (
                one["severity"],
                _leak(one),
                *((one["measurement"],) if len(by) > 1 else ()),
                *(_cell(one["evidence"].get(name)) for name in names),
                one["id"],
            )
            for one in worst[:most]
        ),
        numeric=frozenset(names),
        notes=(
            *([f"Found by: {next(iter(by))}."] if len(by) == 1 else []),
            *([f"and {more:,} more in report.json"] if more > 0 else []),
        ),
    )
    return [table] if worst else []


def claims(report: Row) -> list[Table]:
    """Return the table of a paper's claims and whether the measurements bear them out."""
    rows = tuple(
        (one["id"], HOLDS[one["holds"]], " ".join(filter(None, said)), one["source"])
        for one in report["claims"]
        for said in [(one["statement"], one["detail"] and f"({one['detail']})")]
    )
    columns = ("claim", "holds", "statement", "source")
    return [Table(title="Claims", columns=columns, rows=rows)] if rows else []


def _columns(*columns: str, own: Sequence[str]) -> tuple[str, ...]:
    """Return `columns`, and one for where a row was measured if rows differ in that."""
    return (*columns, "where") if any(own) else columns


def _own(at: str, own: Sequence[str]) -> tuple[str, ...]:
    return (at or NONE,) if any(own) else ()


def _throughout(shared: str) -> tuple[str, ...]:
    return (f"Throughout: {shared}.",) if shared else ()


def _named(names: Mapping[str, str], value: Any) -> str:
    return names.get(value, NONE if value is None else str(value))


def _count(row: Row) -> str:
    return NONE if row["n"] is None else number(row["n"])


def _everywhere(row: Row) -> str:
    return measurements.where(row, row["scope"]) or NONE


def _leak(finding: Mapping[str, Any]) -> str:
    """Return the mask in a finding's evidence, or its label where there is none."""
    evidence = finding["evidence"]
    if "hmac" not in evidence or "length" not in evidence:
        return str(finding["label"])
    return shown({"label": finding["label"], **evidence})


def _evidence_names(findings: Sequence[Row]) -> tuple[str, ...]:
    """Return what the findings' evidence holds besides the mask, at most three things."""
    names = {
        name: None
        for one in findings
        for name, value in one["evidence"].items()
        if name not in ("label", "length", "hmac") and isinstance(value, str | int | float)
    }
    return tuple(sorted(names))[:3]


def _cell(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number(value)
    return NONE if value is None else str(value)
