"""The tables of an attribution: whom the protocol flags, and what other methods say of it."""

from collections.abc import Callable, Mapping, Sequence

from fedaudit.api.kind import Table
from fedaudit.report.attribution_parts import attribution_rows
from fedaudit.report.number_format import format_rate, number, percent
from fedaudit.report.query import Row, missing_reasons
from fedaudit.report.tables import grouping
from fedaudit.report.tables.attribution import secure_sums
from fedaudit.report.tables.attribution.clients import (
    MOST_CLIENTS,
    attribute_table,
    client_table,
    client_tests,
    format_z,
    p_value_cell,
    rows_of_part,
    yes_or_no,
)
from fedaudit.report.tables.grouping import client_of, variant_of
from fedaudit.report.tables.table import NONE, build_table, shorten
from fedaudit.report.verdict import attribution as flags
from fedaudit.report.verdict.attribution import PROTOCOL

MOST_VARIANTS = 100

BREAKS = {
    PROTOCOL: "no",
    "paper_rule": "no",
    "global": "no",
    "direct": "yes",
    "fldetector": "yes",
    "flforensics": "yes",
    "flforensics_kmeans": "yes",
}
"""Whether a method needs single clients' updates, which secure aggregation hides."""

BROKEN = "breaks secure aggregation"
RATES = (
    "tpr: of the clients that trained on marked documents, those that the method flags; fpr: of the"
    " innocent ones."
)
NOT_JUDGED = (
    "The number is what the method goes by. Nothing bounds how often these methods flag an"
    " innocent client, and the verdict does not go by them."
)


def attribution(report: Row) -> list[Table]:
    """Return whom each method flags, and what the protocol cost and revealed, if it was run."""
    rows = attribution_rows(report)
    if len(grouping.variants_of(rows)) > 1:
        makers = [_methods, _strengths, _global, secure_sums.variants]
    else:
        makers = [
            client_table,
            attribute_table,
            _methods,
            _other_methods,
            _global,
            secure_sums.secure_sum_tables,
            simulated_table,
        ]
    return [table for table in (make(rows) for make in makers) if table.rows]


def attribution_sentence(report: Row) -> list[str]:
    """Return a sentence on what the protocol asked for and whom it flags."""
    rows = attribution_rows(report)
    if (count := len(grouping.variants_of(rows))) > 1:
        return [f"The attribution was made on {count} variants; tables below compare them."]
    best = flags.strongest_tests(client_tests(rows))
    if not best:
        return []
    queries = [
        row["value"] for row in rows_of_part(rows, "masking", "queries") if row["value"] is not None
    ]
    sums = f" asked for {number(queries[0])} sums over sets of clients and" if queries else ""
    missing = sum(not test.decided for test in best)
    untested = f" {missing:,} could not be tested." if missing else ""
    return [
        f"The protocol {PROTOCOL}{sums} tested {len(best) - missing:,} of {len(best):,} clients for"
        f" watermarks: it flags {sum(test.flagged for test in best):,}.{untested}"
    ]


def _methods(rows: Sequence[Row]) -> Table:
    """Return a line for each method, or for each variant and method."""
    is_study = len(grouping.variants_of(rows)) > 1
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in grouping.order_rows(rows):
        groups.setdefault((variant_of(row) if is_study else "", row["plugin"]), []).append(row)
    rated = bool(rows_of_part(rows, "rate"))
    cells = [
        {
            "variant": name,
            "method": plugin or NONE,
            BROKEN: "" if is_study else _revealed_text(plugin, rows),
            "flagged": "" if rated else _flagged_text(group),
            "tpr": _rate(group, "tpr"),
            "fpr": _rate(group, "fpr"),
        }
        for (name, plugin), group in groups.items()
        if not is_study or rows_of_part(group, "rate") or not rated
    ]
    table = build_table(
        "Attribution: methods",
        cells,
        numeric=("flagged", "tpr", "fpr"),
        notes=(
            RATES if rated else "",
            _breaking(rows) if is_study else _means(rows),
            *missing_reasons(rows_of_part(rows, "rate")),
        ),
    )
    return shorten(table, MOST_VARIANTS)


def _revealed_text(plugin: str, rows: Sequence[Row]) -> str:
    """Return whether a method sees single updates; for the protocol, how many its sums reveal."""
    exact = secure_sums.determined_clients(rows) if plugin == PROTOCOL else 0
    return f"for {exact:,} clients" if exact else BREAKS.get(plugin, NONE)


def _breaking(rows: Sequence[Row]) -> str:
    names = dict.fromkeys(row["plugin"] for row in rows if BREAKS.get(row["plugin"]) == "yes")
    return f"These methods break secure aggregation: {', '.join(names)}." if names else ""


def _rate(rows: Sequence[Row], metric: str) -> str:
    rates = rows_of_part(rows, "rate", metric)
    return format_rate(rates[0]) if rates else ""


def _flagged_text(rows: Sequence[Row]) -> str:
    """Return how many clients a method flags, out of those that it could test."""
    flagged = {t.client: t.flagged for t in flags.strongest_tests(client_tests(rows)) if t.decided}
    every = flagged | {
        client_of(row): row["value"] > 0
        for row in rows_of_part(rows, "suspicion", "flagged")
        if row["value"] is not None
    }
    return f"{sum(every.values()):,} of {len(every):,}" if every else ""


def _means(rows: Sequence[Row]) -> str:
    """Return the mean Z of marked and of innocent clients, where the truth is known."""
    means = [
        f"{format_z(row['value'])} over {number(row['n'])} {row['scope']['clients']} "
        f"{'client' if row['n'] == 1 else 'clients'}"
        for row in rows_of_part(rows, "mean")
    ]
    return f"Mean Z of {PROTOCOL}: {', '.join(means)}." if means else ""


def _strengths(rows: Sequence[Row]) -> Table:
    """Return the mean Z of marked and of innocent clients on each variant."""
    kinds = list(dict.fromkeys(str(row["scope"]["clients"]) for row in rows_of_part(rows, "mean")))
    limits: dict[str, list[float]] = {}
    for test in client_tests(rows):
        if test.threshold is not None:
            limits.setdefault(test.variant, []).append(test.threshold)
    cells: dict[str, dict[str, str]] = {}
    for row in grouping.order_rows(rows_of_part(rows, "mean")):
        line = cells.setdefault(variant_of(row), {"variant": variant_of(row)})
        line["must exceed"] = _range(limits.get(variant_of(row), []))
        line[_of_kind(str(row["scope"]["clients"]))] = (
            f"{format_z(row['value'])} ({number(row['n'])})"
        )
    columns = tuple(map(_of_kind, kinds))
    table = build_table(
        "Attribution: mean Z",
        list(cells.values()),
        ("variant", *columns, "must exceed"),
        numeric=(*columns, "must exceed"),
        notes=("In brackets: over how many clients.", *missing_reasons(rows_of_part(rows, "mean"))),
    )
    return shorten(table, MOST_VARIANTS)


def _range(values: Sequence[float]) -> str:
    """Return the smallest and the largest number, or the one number if all are equal."""
    bounds = dict.fromkeys(number(end) for end in (min(values), max(values))) if values else {}
    return " to ".join(bounds)


def _of_kind(kind: str) -> str:
    return f"{kind} clients"


def _other_methods(rows: Sequence[Row]) -> Table:
    """Return the results of every method other than the protocol for each client."""
    selected = rows_of_part(rows, "suspicion")
    methods = list(dict.fromkeys(row["plugin"] for row in selected))
    names = list(dict.fromkeys(map(client_of, selected)))
    cells = [
        {
            "client": name,
            **{f"by {method}": _method_verdict(selected, method, name) for method in methods},
        }
        for name in names
    ]
    table = build_table(
        "Attribution: whom other methods flag",
        cells,
        ("client", *(f"by {method}" for method in methods)),
        notes=(NOT_JUDGED, *missing_reasons(selected)),
    )
    return shorten(table, MOST_CLIENTS)


def _method_verdict(rows: Sequence[Row], method: str, name: str) -> str:
    """Return whether a method flags a client, and its statistic: `yes, Z 5.20`, `no, 0.31`."""
    values = {
        r["metric"]: r["value"] for r in rows if (r["plugin"], client_of(r)) == (method, name)
    }
    formats: dict[str, Callable[[float], str]] = {
        "flagged": lambda value: yes_or_no(value > 0),
        "stouffer_z": lambda value: f"Z {format_z(value)}",
        "suspicion": number,
    }
    texts = [
        say(value) for metric, say in formats.items() if (value := values.get(metric)) is not None
    ]
    return ", ".join(texts) or NONE


def _global(rows: Sequence[Row]) -> Table:
    """Return what the global model itself reveals about every mark."""
    z_rows = grouping.order_rows(rows_of_part(rows, "global", "z"))
    is_study = len(grouping.variants_of(rows)) > 1
    p = {_mark(row): row["value"] for row in rows_of_part(rows, "global", "p_value")}
    cells = [
        {
            "variant": variant_of(row) if is_study else "",
            "mark": str(row["scope"]["mark"]),
            "Z": format_z(row["value"]),
            "found": _hits_of_n(row),
            "p": p_value_cell(p.get(_mark(row))),
        }
        for row in z_rows
    ]
    table = build_table(
        "Attribution: marks in the global model",
        cells,
        numeric=("Z", "found", "p"),
        notes=(
            "They say that someone trained on a mark's documents, not who.",
            *missing_reasons(z_rows),
        ),
    )
    return shorten(table, MOST_VARIANTS)


def _hits_of_n(row: Row) -> str:
    hits, n = row["hits"], row["n"]
    return NONE if hits is None or n is None else f"{hits:,} / {n:,}"


def _mark(row: Row) -> tuple[str, str, str]:
    return variant_of(row), row["plugin"], str(row["scope"]["mark"])


NOTE = (
    "Federations with these clients, rounds, sets and null marks: in how many a marked client is"
    " found, and an innocent client is flagged."
)


def simulated_table(rows: Sequence[Row]) -> Table:
    """Return a line for each strength of a mark: how many are found, and how many wrongly."""
    simulated = rows_of_part(rows, "simulated")
    by_strength: dict[str, dict[str, Row]] = {}
    for row in simulated:
        if "strength" in row["scope"]:
            by_strength.setdefault(_marked(row["scope"]), {})[row["metric"]] = row
    cells = [
        {
            "marked": marked,
            "found": _simulated_rate(by_metric.get("marked_found")),
            "innocent client flagged": _simulated_rate(by_metric.get("innocent_flagged")),
        }
        for marked, by_metric in by_strength.items()
    ]
    return build_table(
        "Attribution: what these settings can tell",
        cells,
        numeric=("found", "innocent client flagged"),
        notes=(NOTE, _most_flagged(simulated)),
    )


def _marked(scope: Mapping[str, object]) -> str:
    strength = scope["strength"]
    if not (isinstance(strength, float) and strength):
        return "nobody"
    return f"one client, Z {strength:g}{' (usual strength)' if 'rounds' in scope else ''}"


def _simulated_rate(row: Row | None) -> str:
    return format_rate(row) if row else ""


def _most_flagged(simulated: Sequence[Row]) -> str:
    """Return the innocent client that is flagged most often; nothing if none is flagged."""
    of_clients = [row for row in simulated if "client" in row["scope"] and row["n"]]
    if not of_clients:
        return ""
    most = max(of_clients, key=lambda row: (row["value"] or 0, row["high"] or 0, client_of(row)))
    return (
        f"No client is flagged more often while it is innocent than {client_of(most)}: "
        f"{percent(most['value'])}, {percent(most['high'])} at most."
    )
