"""The tables of an attribution: whom the protocol flags, what other methods say, what it cost."""

from collections.abc import Callable, Mapping, Sequence

from fedaudit.api.kind import Table
from fedaudit.api.records import Measurement
from fedaudit.report import units
from fedaudit.report.attribution_parts import attribution_rows
from fedaudit.report.number_format import NOT_MEASURED, format_rate, number, percent
from fedaudit.report.query import Row, group_by, missing_reasons
from fedaudit.report.tables import grouping
from fedaudit.report.tables.grouping import client_of, variant_of
from fedaudit.report.tables.table import NONE, build_table, cell_of, row_table, shorten
from fedaudit.report.verdict import attribution as flags
from fedaudit.report.verdict.attribution import PROTOCOL, TestedClient

MOST_CLIENTS = 40
OWN_LIMITS = (
    "What Z must exceed is each client's own: its luck, and what its estimates may hold of others'"
    " marks."
)
ATTRIBUTES = (
    "In brackets: right answers by the global models with which the rounds began. Attributes are"
    " numbered as in the file of marks. One attribute alone flags no client: it may be a fact of"
    " another owner's."
)
OWN_PART = (
    "Own part: how much of a flagged client's Z comes from its own update, if answers grow in"
    " proportion to what an estimate contains. All intervals hold together. It decides nothing."
)


def client_table(rows: Sequence[Row]) -> Table:
    """Return a line for each client, the highest Z first."""
    tests = flags.strongest_tests(client_tests(rows))
    adjusted = {
        (client_of(row), str(row["scope"]["mark"])): row["value"]
        for row in rows_of_part(rows, "client", "p_value")
        if row["scope"].get("adjusted") == "holm"
    }
    contributions = {
        (client_of(row), str(row["scope"]["mark"])): row
        for row in rows_of_part(rows, "client", "contribution")
    }
    cells = [
        {
            "client": test.client,
            "mark": test.mark,
            "Z": format_z(test.z),
            "must exceed": NONE if test.threshold is None else number(test.threshold),
            "own part [95 %]": _own_part(contributions.get((test.client, test.mark))),
            "Holm p": p_value_cell(adjusted.get((test.client, test.mark))),
            "rounds": "" if test.rounds is None else number(test.rounds),
            "flagged": yes_or_no(test.flagged) if test.decided else NONE,
        }
        for test in tests
    ]
    table = build_table(
        "Attribution: clients",
        cells,
        numeric=("Z", "must exceed", "own part [95 %]", "Holm p", "rounds"),
        notes=(
            OWN_LIMITS if len({t.threshold for t in tests} - {None}) > 1 else "",
            OWN_PART if contributions else "",
            *missing_reasons(rows_of_part(rows, "client")),
        ),
    )
    return shorten(table, max(MOST_CLIENTS, sum(test.flagged for test in tests)))


def attribute_table(rows: Sequence[Row]) -> Table:
    """Return right answers by attribute, under each client's mark with the strongest evidence."""
    tests = flags.strongest_tests(client_tests(rows))
    answers: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows_of_part(rows, "attribute"):
        line = answers.setdefault((client_of(row), str(row["scope"]["mark"])), {})
        line[f"attribute {row['scope']['attribute']}"] = _answers(row)
    cells = [
        {"client": test.client, "mark": test.mark, **answers[test.client, test.mark]}
        for test in tests
        if (test.client, test.mark) in answers
    ]
    names = tuple(dict.fromkeys(name for line in cells for name in line))
    table = build_table(
        "Attribution: right answers by attribute",
        cells,
        names,
        numeric=names[2:],
        notes=(ATTRIBUTES if cells else "",),
    )
    return shorten(table, max(MOST_CLIENTS, sum(test.flagged for test in tests)))


def _answers(row: Row) -> str:
    """Return the right answers of all, and in brackets those of the global models."""
    if row["hits"] is None or row["n"] is None:
        return NONE
    before = "" if row["baseline"] is None else f" ({number(row['baseline'])})"
    return f"{row['hits']:,} of {row['n']:,}{before}"


def client_tests(rows: Sequence[Row]) -> list[TestedClient]:
    """Return the protocol's tests of clients among rows of a report."""
    return flags.tested_clients(Measurement(**row) for row in rows)


def format_z(value: float | None) -> str:
    """Return a statistic as text: two decimal places, or three digits if it is huge."""
    if value is None:
        return NONE
    return f"{value:.2f}" if abs(value) < 10_000 else f"{value:.3g}"


def _own_part(row: Row | None) -> str:
    """Return a client's own contribution to its Z, with its interval; empty if unknown."""
    if row is None:
        return ""
    if row["value"] is None:
        return NONE
    return f"{row['value']:.1f} [{row['low']:.1f}, {row['high']:.1f}]"


def rows_of_part(rows: Sequence[Row], part: str, *metrics: str) -> list[Row]:
    """Return the rows of one part of an attribution, by the names of `report.query`."""
    part_rows = attribution_rows({"measurements": rows}, part)
    return [row for row in part_rows if not metrics or row["metric"] in metrics]


def p_value_cell(value: float | None) -> str:
    """Return a p value as text."""
    return NONE if value is None else number(value)


def yes_or_no(flag: bool) -> str:
    """Return a flag as "yes" or "no"."""
    return "yes" if flag else "no"


ROW_NAMES = {
    "queries": "sums asked for",
    "sets": "different sets in a round",
    "smallest_set": "clients in the smallest set",
    "determined": "clients whose updates follow exactly from a round's sums",
    "leakage_bits": "leakage of an estimate, bits",
    "effective_masks": "effective masks",
    "estimator_variance": "variance factor",
    "seconds: sums": "time for the sums",
    "seconds: scoring": "time for scoring",
    "overhead: sums": "time for the sums, of the training's",
    "overhead: scoring": "time for scoring, of the training's",
}
"""Names of what was measured, in reading order."""

SHORT = {
    "queries": "sums",
    "sets": "sets",
    "smallest_set": "smallest",
    "determined": "exact",
    "leakage_bits": "bits",
    "estimator_variance": "variance",
    "seconds: sums": "asking",
    "seconds: scoring": "scoring",
}
"""The columns of a table that compares variants."""

LOWEST = {"smallest_set", "effective_masks"}
"""Metrics that are worse when lower; the worst of several rounds is shown."""

LEGEND = (
    "exact: clients whose updates follow exactly from a round's sums; bits: leakage; smallest: the"
    " smallest set."
)


def secure_sum_tables(rows: Sequence[Row]) -> Table:
    """Return a line for each amount asked for, given away and spent, in the worst round."""
    worst_rows = _worst(rows)
    cells = [
        {
            "what": ROW_NAMES.get(name, name),
            "amount": _amount(row),
            "round": round_text,
            "masking strength": _strength(row),
        }
        for name, (row, round_text) in worst_rows.items()
    ]
    return build_table(
        "Attribution: privacy and cost",
        cells,
        numeric=("amount", "masking strength"),
        notes=(_exactly(worst_rows), *missing_reasons(_masking_and_time_rows(rows))),
    )


def determined_clients(rows: Sequence[Row]) -> int:
    """Return how many clients' updates can be computed exactly from the sums of the worst round."""
    counts = (
        row["value"] or 0.0 for row in _masking_and_time_rows(rows) if row["metric"] == "determined"
    )
    return int(max(counts, default=0.0))


def variants(rows: Sequence[Row]) -> Table:
    """Return a line for each variant of a study, of its worst round."""
    groups = group_by(grouping.order_rows(_masking_and_time_rows(rows)), variant_of)
    cells = [
        {"variant": name or NONE}
        | {SHORT.get(metric, metric): _amount(row) for metric, (row, _) in _worst(group).items()}
        for name, group in groups.items()
    ]
    names = dict.fromkeys((*SHORT.values(), *(name for line in cells for name in line)))
    columns = [name for name in names if name in SHORT.values()]
    table = build_table(
        "Attribution: privacy and cost",
        cells,
        ("variant", *columns),
        numeric=columns,
        notes=(
            "The worst round of each variant.",
            LEGEND,
            *missing_reasons(_masking_and_time_rows(rows)),
        ),
    )
    return shorten(table, MOST_VARIANTS)


def _masking_and_time_rows(rows: Sequence[Row]) -> list[Row]:
    report = {"measurements": rows}
    return [*attribution_rows(report, "masking"), *attribution_rows(report, "time")]


def _worst(rows: Sequence[Row]) -> dict[str, tuple[Row, str]]:
    """Return the worst row of each amount, its round, and the number of rounds."""
    groups = group_by(_masking_and_time_rows(rows), _name)
    order = [*ROW_NAMES, *groups]
    worst_rows = {}
    for name in sorted(groups, key=order.index):
        group, sign = sorted(groups[name], key=_round), -1 if name in LOWEST else 1
        known_rows = [row for row in group if row["value"] is not None] or group
        worst = max(known_rows, key=lambda row: sign * (row["value"] or 0.0))
        worst_rows[name] = worst, _round_label(worst, group)
    return worst_rows


def _round(row: Row) -> tuple[float, str]:
    """Return the sort key of a row's round, so that the first of equal rows is shown."""
    number = row["scope"].get("round")
    return number if isinstance(number, int | float) else 0, str(number)


def _name(row: Row) -> str:
    step = row["scope"].get("step")
    return row["metric"] if step is None else f"{row['metric']}: {step}"


def _round_label(row: Row, group: Sequence[Row]) -> str:
    number = str(row["scope"].get("round", ""))
    rounds = {str(r["scope"].get("round", "")) for r in group}
    if len(rounds) < 2:
        return number
    same = all(r["value"] == row["value"] for r in group)
    return f"each of {len(rounds)}" if same else f"{number} of {len(rounds)}"


def _amount(row: Row) -> str:
    if row["value"] is None:
        return NOT_MEASURED
    if row["metric"] == "overhead":
        return f"{row['value']:.1%}"
    return (units.duration if row["metric"] == "seconds" else number)(row["value"])


def _strength(row: Row) -> str:
    strength = row["scope"].get("strength")
    if isinstance(strength, int | float):
        return number(strength)
    return "" if strength is None else str(strength)


def _exactly(worst_rows: Mapping[str, tuple[Row, str]]) -> str:
    """Return in words what the sums of the worst round reveal together."""
    if "determined" not in worst_rows or worst_rows["determined"][0]["value"] is None:
        return ""
    row, _ = worst_rows["determined"]
    if not row["value"]:
        return "No round's sums determine a single client's update exactly."
    updates = (
        "1 client's update" if row["value"] == 1 else f"{number(row['value'])} clients' updates"
    )
    return (
        f"Secure aggregation admitted each sum, but together those of round"
        f" {row['scope']['round']} determine {updates} exactly."
    )


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
        makers = [_methods, _strengths, _global, variants]
    else:
        makers = [
            client_table,
            attribute_table,
            _methods,
            _other_methods,
            _global,
            secure_sum_tables,
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
    groups = group_by(
        grouping.order_rows(rows),
        lambda row: (variant_of(row) if is_study else "", str(row["plugin"])),
    )
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
    exact = determined_clients(rows) if plugin == PROTOCOL else 0
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
    tests = group_by(client_tests(rows), lambda test: test.variant)
    groups = group_by(grouping.order_rows(rows_of_part(rows, "mean")), variant_of)
    cells = [
        {
            "variant": name,
            "must exceed": _range(
                [t.threshold for t in tests.get(name, ()) if t.threshold is not None]
            ),
            **{_kind(r): f"{format_z(r['value'])} ({number(r['n'])})" for r in group},
        }
        for name, group in groups.items()
    ]
    columns = tuple(dict.fromkeys(map(_kind, rows_of_part(rows, "mean"))))
    table = build_table(
        "Attribution: mean Z",
        cells,
        ("variant", *columns, "must exceed"),
        numeric=(*columns, "must exceed"),
        notes=("In brackets: over how many clients.", *missing_reasons(rows_of_part(rows, "mean"))),
    )
    return shorten(table, MOST_VARIANTS)


def _range(values: Sequence[float]) -> str:
    """Return the smallest and the largest number, or the one number if all are equal."""
    bounds = dict.fromkeys(number(end) for end in (min(values), max(values))) if values else {}
    return " to ".join(bounds)


def _kind(row: Row) -> str:
    return f"{row['scope']['clients']} clients"


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
    z_rows = grouping.order_rows(rows_of_part(rows, "global", "z"))
    is_study = len(grouping.variants_of(rows)) > 1
    p = {_mark(row): row["value"] for row in rows_of_part(rows, "global", "p_value")}
    table = row_table(
        "Attribution: marks in the global model",
        z_rows,
        {
            "variant": lambda row: variant_of(row) if is_study else "",
            "mark": lambda row: str(row["scope"]["mark"]),
            "Z": lambda row: format_z(row["value"]),
            "found": _hits_of_n,
            "p": lambda row: p_value_cell(p.get(_mark(row))),
        },
        numeric=("Z", "found", "p"),
        notes=("They say that someone trained on a mark's documents, not who.",),
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
    by_strength = group_by((r for r in simulated if "strength" in r["scope"]), _marked)

    def rate(rows: Sequence[Row], metric: str) -> str:
        return cell_of({row["metric"]: row for row in rows}.get(metric), format_rate, "")

    cells = [
        {
            "marked": marked,
            "found": rate(group, "marked_found"),
            "innocent client flagged": rate(group, "innocent_flagged"),
        }
        for marked, group in by_strength.items()
    ]
    return build_table(
        "Attribution: what these settings can tell",
        cells,
        numeric=("found", "innocent client flagged"),
        notes=(NOTE, _most_flagged(simulated)),
    )


def _marked(row: Row) -> str:
    scope, strength = row["scope"], row["scope"]["strength"]
    if not (isinstance(strength, float) and strength):
        return "nobody"
    usual = f" (usual strength, rounds: {scope['rounds']})" if "rounds" in scope else ""
    return f"one client, Z {strength:g}{usual}"


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
