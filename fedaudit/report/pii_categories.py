"""What came out by major category of personal data, and what norms say of the kinds that did.

Rows by category are computed from the rows by label when a report is written, so every attack that
counts by label has them. Their tables have the same layout as the tables by label.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fedaudit.api.kind import SWEPT, Table
from fedaudit.api.records import Measurement
from fedaudit.pii.taxonomy import Category, Norm, category, in_order, major_category, taxonomy
from fedaudit.report.query import Row, scope_but
from fedaudit.report.tables.extraction import labels, untargeted_tables
from fedaudit.report.tables.table import build_table

METRICS = ("coverage", "extraction_recall", "extraction_precision")
"""Metrics that are counted by label and can be added up."""

NO_ADVICE = (
    "Clauses that speak of a kind of data. No legal advice: whatever identifies a person is"
    " personal data."
)

SHORT = {"CCPA": "CCPA 1798."}
"""Titles of columns that hold the common beginning of their clauses, which cells leave out."""


def by_category(rows: Iterable[Measurement]) -> list[Measurement]:
    """Return a row with scope.category for the rows that differ in their label only.

    Hits and n are summed and the interval is Wilson's. If hits are expected values rather than
    counts, the row has the means of value and bounds weighted by n. If a label has no number, its
    category has none either, unless the label had nothing to count. Labels outside the taxonomy
    are "other". Rows that already have a category are kept and not computed a second time.
    """
    groups: dict[tuple[object, ...], list[Measurement]] = {}
    existing = set()
    for row in rows:
        if row.kind != "extraction" or row.metric not in METRICS:
            continue
        if SWEPT.issubset(row.scope):
            continue
        if "category" in row.scope:
            existing.add(_key(row, row.scope["category"]))
        elif "label" in row.scope:
            name = major_category(str(row.scope["label"]))
            groups.setdefault(_key(row, name), []).append(row)
    return [_merge_labels(same) for key, same in groups.items() if key not in existing]


def category_of(label: str) -> dict[str, str] | None:
    """Return the major and minor category of `label` for a finding; None outside the taxonomy."""
    kind = category(label)
    return {"major": kind.major, "minor": kind.name} if kind else None


def category_tables(report: Row) -> list[Table]:
    """Return what came out by major category, a table an attack, and the norms' clauses on it."""
    rows = [row for row in report["measurements"] if "category" in row["scope"]]
    by_label = [
        {**r, "scope": {**scope_but(r, "category"), "label": r["scope"]["category"]}} for r in rows
    ]
    view = {**report, "measurements": by_label}
    return [_as_categories(table) for table in (*labels(view), *untargeted_tables(view))]


def norm_tables(report: Row, laws: bool = False) -> list[Table]:
    """Return the clauses of the GDPR about the kinds of personal data in the report.

    With `laws`, those of laws outside the EU as well.
    """
    lines = [_line(kind, kind_labels) for kind, kind_labels in _kinds(report).items()]
    columns = ("kind", *(SHORT.get(norm.name, norm.name) for norm in _norms(laws)))
    table = build_table("What norms say", lines, columns, notes=(NO_ADVICE,))
    return [table] if lines else []


def relevant_clauses(report: Row, laws: bool = False) -> list[Table]:
    """Return the subject of each clause that `norm_tables` names."""
    kinds = _kinds(report)
    rows = tuple(
        (norm.name, clause.reference, clause.subject)
        for norm in _norms(laws)
        for clause in norm.clauses
        if any(clause.reference in kind.references(norm.key) for kind in kinds)
    )
    columns = ("norm", "clause", "is about")
    notes = tuple(f"{norm.name}: {norm.title}." for norm in _norms(laws))
    return [Table(title="The clauses", columns=columns, rows=rows, notes=notes)] if rows else []


def _norms(laws: bool) -> list[Norm]:
    return [norm for norm in taxonomy().norms if laws or norm.key == "gdpr"]


def _kinds(report: Row) -> dict[Category, list[str]]:
    """Return the report's minor categories with its labels of each, in the taxonomy's order."""
    kinds: dict[Category, list[str]] = {}
    for label in _labels_in_report(report):
        if kind := category(label):
            kinds.setdefault(kind, []).append(label)
    return {kind: kinds[kind] for kind in taxonomy().categories if kind in kinds}


def _line(kind: Category, kind_labels: Sequence[str]) -> dict[str, str]:
    line = {"kind": f"{kind.name} ({', '.join(kind_labels)})"}
    for norm in taxonomy().norms:
        name = SHORT.get(norm.name, norm.name)
        prefix = name.removeprefix(norm.name).strip()
        line[name] = ", ".join(clause.removeprefix(prefix) for clause in kind.references(norm.key))
    return line


def _labels_in_report(report: Row) -> list[str]:
    """Return the labels that the report counts or lists findings of."""
    counted = (
        row["scope"]["label"]
        for row in report["measurements"]
        if row["kind"] == "extraction" and row["metric"] in METRICS and "label" in row["scope"]
    )
    return sorted({str(label) for label in (*counted, *(f["label"] for f in report["findings"]))})


def _key(row: Measurement, name: object) -> tuple[object, ...]:
    scope = ((k, str(v)) for k, v in row.scope.items() if k not in ("label", "category"))
    return (row.plugin, row.metric, str(name), *sorted(scope))


def _merge_labels(rows: Sequence[Measurement]) -> Measurement:
    """Return one row that merges the rows of all labels of a category."""
    from fedaudit.metrics.intervals import wilson

    name = major_category(str(rows[0].scope["label"]))
    scope = {key: value for key, value in rows[0].scope.items() if key != "label"}
    scope["category"] = name
    total = replace(rows[0], scope=scope, chance=None, baseline=None, reason="")
    counted = [row for row in rows if row.n]
    blind = [r for r in counted or rows if not r.n or None in (r.value, r.low, r.high)]
    if blind:
        reason = "; ".join(f"{r.scope['label']}: {r.reason or 'it has no n'}" for r in blind)
        return replace(total, value=None, low=None, high=None, hits=None, n=None, reason=reason)
    n = sum(row.n or 0 for row in counted)
    if any(row.hits is None for row in counted):
        # Sums of bounds bound the sum of values.
        value, low, high = (
            float(sum((row.n or 0) * getattr(row, end) for row in counted)) / n
            for end in ("value", "low", "high")
        )
        return replace(total, n=n, hits=None, value=value, low=low, high=high)
    hits = sum(row.hits or 0 for row in counted)
    rate = wilson(hits, n)
    return replace(total, value=rate.value, low=rate.low, high=rate.high, n=n, hits=hits)


def _as_categories(table: Table) -> Table:
    """Return a table by label as a table by category, in the order of the taxonomy."""
    order = in_order(row[0] for row in table.rows)
    return replace(
        table,
        title=table.title.replace("Kinds of PII", "Categories of PII", 1),
        columns=("category", *table.columns[1:]),
        rows=tuple(sorted(table.rows, key=lambda row: order.index(row[0]))),
    )
