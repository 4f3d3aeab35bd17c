"""All tables of a report in the order in which they are read, and those of what follows from it."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedaudit.api.kind import Table
from fedaudit.report import query as measurements
from fedaudit.report.charts import privacy_utility
from fedaudit.report.kinds import memorization
from fedaudit.report.kinds.general import tables_of
from fedaudit.report.kinds.registry import FIRST, is_ours, kind_of, kinds_of
from fedaudit.report.number_format import count, format_measurement
from fedaudit.report.pii_categories import category_tables, norm_tables
from fedaudit.report.query import SEVERITIES, Row
from fedaudit.report.redaction import is_mask, readable_mask
from fedaudit.report.tables import tradeoffs
from fedaudit.report.tables.completion import discoverable, in_discoverable, in_verbatim, verbatim
from fedaudit.report.tables.costs import costs
from fedaudit.report.tables.cross_client import matrix_tables, without_pairs
from fedaudit.report.tables.defense import defense
from fedaudit.report.tables.evidence import evidence
from fedaudit.report.tables.extraction import (
    candidates,
    extraction,
    labels,
    leaking_answer_tables,
    overlaps,
    untargeted_tables,
)
from fedaudit.report.tables.inference import inference
from fedaudit.report.tables.sweeps import by_budget, expected
from fedaudit.report.tables.table import NONE, build_table, format_cell, row_table, shorten
from fedaudit.report.tables.utility import keyed_utility_tables, utility
from fedaudit.report.verdict.attribution import is_accusation

HOLDS = {True: "yes", False: "no", None: "cannot tell"}
MOST_OTHERS = 100

EVIDENCE_COLUMNS = ("outputs", "outputs_of_base", "p_value")
"""Fields of a finding's evidence that come first in its cell."""

FLAG = {"client": "client", "mark": "mark", "Z": "z", "Holm p": "p_value", "rounds": "rounds"}
"""The columns of flagged clients, and what they are called in a finding's evidence."""


def attack_tables(report: Row, *, laws: bool = False) -> list[Table]:
    """Return the tables of what came out of the model, with the GDPR's clauses or all laws'."""
    full_report, report = report, without_pairs(report)
    tables = (
        *tables_of(FIRST, full_report),
        *matrix_tables(full_report),
        *verbatim(full_report),
        *discoverable(full_report),
        *tradeoffs.tables(full_report),
        *privacy_utility.tables(full_report),
        *extraction(report),
        *candidates(report),
        *labels(report),
        *by_budget(report),
        *expected(report),
        *overlaps(report),
        *leaking_answer_tables(report),
        *untargeted_tables(report),
        *inference(report),
        *tables_of((kind for kind in kinds_of(report) if kind not in FIRST), report),
        *category_tables(report),
        *norm_tables(report, laws),
        *evidence(full_report),
    )
    return [table for table in tables if table.columns]


def other_tables(report: Row) -> list[Table]:
    """Return the tables of what else was measured: defences, utility, costs."""
    tables = (
        *defense(report),
        *utility(report),
        *keyed_utility_tables(report),
        *costs(report),
        *unshown_rows_table(report),
    )
    return [table for table in tables if table.columns]


def unshown_rows_table(report: Row) -> list[Table]:
    """Return the table of every measurement that no other table shows."""
    rows = [
        row
        for row in measurements.other_rows(report)
        if not ((kind := kind_of(row["kind"])) and kind.shows(row))
        and not any(shows(row) for shows in (in_verbatim, in_discoverable))
    ]
    table = row_table(
        "Other measurements",
        rows,
        {
            "metric": _metric_name,
            "by": lambda row: str(row["plugin"]),
            "value [95 %]": format_measurement,
            "n": count,
            "where": lambda row: measurements.scope_text(row, row["scope"]) or NONE,
        },
        numeric=("value [95 %]", "n"),
    )
    return [shorten(table, MOST_OTHERS)] if rows else []


def finding_tables(report: Row, most: int) -> list[Table]:
    """Return the tables of the worst findings: leaks, passages, and clients that are flagged."""
    return [
        *leak_table(report, most),
        *memorization.passage_table({"findings": worst_findings(report)}, most),
        *flagged_table(report, most),
    ]


def flagged_table(report: Row, most: int) -> list[Table]:
    """Return the table of the clients that are flagged, and how many more there are."""
    findings = [f for f in worst_findings(report) if _flags(f)]
    attacks = dict.fromkeys(f["measurement"] for f in findings)
    cells = [
        {"severity": finding["severity"], "by": finding["measurement"] if len(attacks) > 1 else ""}
        | {title: format_cell(finding["evidence"].get(name)) for title, name in FLAG.items()}
        for finding in findings
    ]
    table = build_table(
        "Flagged clients",
        cells,
        ("severity", "by", *FLAG),
        numeric=("Z", "Holm p", "rounds"),
        notes=(f"Found by: {next(iter(attacks))}." if len(attacks) == 1 else "",),
    )
    return [shorten(table, most)] if findings else []


def leak_table(report: Row, most: int) -> list[Table]:
    """Return the table of the worst leaks, masked, and how many more there are."""
    excluded = (_flags, memorization.is_example)
    findings = [f for f in worst_findings(report) if not any(is_it(f) for is_it in excluded)]
    remaining = len(findings) - most
    attacks = dict.fromkeys(f["measurement"] for f in findings)
    # An id such as contextual-0001 names the attack.
    named = all(f["id"].startswith(f"{f['measurement'].partition(' ')[0]}-") for f in findings)
    by = ("by",) if len(attacks) > 1 and not named else ()
    names = _evidence_names(findings[:most])
    headings = tuple(name.replace("_", " ") for name in names)
    table = Table(
        title="Findings",
        columns=("severity", "leak", *by, *headings, "id"),
        rows=tuple(
            (
                finding["severity"],
                leak_name(finding),
                *((finding["measurement"],) if by else ()),
                *(format_cell(finding["evidence"].get(name)) for name in names),
                finding["id"],
            )
            for finding in findings[:most]
        ),
        numeric=frozenset(headings),
        notes=(
            *([f"Found by: {next(iter(attacks))}."] if len(attacks) == 1 else []),
            *([f"and {remaining:,} more in report.json"] if remaining > 0 else []),
        ),
    )
    return [table] if findings else []


def claim_table(report: Row) -> list[Table]:
    """Return the table of a paper's claims and whether the measurements bear them out."""
    rows = tuple(
        (claim["id"], HOLDS[claim["holds"]], " ".join(filter(None, texts)), claim["source"])
        for claim in report["claims"]
        for texts in [(claim["statement"], claim["detail"] and f"({claim['detail']})")]
    )
    columns = ("claim", "holds", "statement", "source")
    return [Table(title="Claims", columns=columns, rows=rows)] if rows else []


def worst_findings(report: Row) -> list[Row]:
    """Return the findings, the worst first."""
    return sorted(report["findings"], key=lambda f: SEVERITIES.index(f["severity"]))


def _flags(finding: Row) -> bool:
    return is_accusation(finding["label"], finding["measurement"])


def _metric_name(row: Row) -> str:
    """Return a row's metric, after its kind if a plugin defined that kind."""
    name = str(row["metric"])
    return name if is_ours(row["kind"]) else f"{row['kind']}: {name}"


def leak_name(finding: Mapping[str, Any]) -> str:
    """Return the mask in a finding's evidence, or its label where there is none."""
    evidence = finding["evidence"]
    if "hmac" not in evidence or "length" not in evidence:
        return str(finding["label"])
    return readable_mask({"label": finding["label"], **evidence})


def _evidence_names(findings: Sequence[Row]) -> tuple[str, ...]:
    """Return what the findings' evidence holds besides the mask, at most three names.

    How often a leak came out and how surely it is one go first, then the names in order.
    """
    names = {
        name: None
        for finding in findings
        for name, value in finding["evidence"].items()
        if name not in ("label", "length", "hmac", "controls", "controls_drawn")
        and (isinstance(value, str | int | float) or is_mask(value))
    }
    first = [name for name in EVIDENCE_COLUMNS if name in names]
    return tuple(dict.fromkeys((*first, *sorted(names))))[:3]
