"""Cross-client memorization in words and tables: who draws whose text."""

from collections.abc import Iterable, Sequence

from fedaudit.api.kind import Table
from fedaudit.report import query
from fedaudit.report.number_format import (
    NOT_MEASURED,
    format_hits,
    format_measurement,
    number,
    percent,
)
from fedaudit.report.query import MEMORIZATION, SOURCES, Row, comparable_row, missing_reasons
from fedaudit.report.redaction import readable_mask
from fedaudit.report.tables import grouping
from fedaudit.report.tables.table import (
    NONE,
    build_table,
    common_note,
    display_name,
    format_cell,
    shorten,
)

OVERALL_METRICS = ("mr_intra", "mr_inter", "mr_total")
COLUMNS = {"mr_intra": "own", "mr_inter": "others'", "mr_total": "any"}
LEGEND = "own: the client's own texts; others': other clients'; any: anybody's. In brackets: 95 %."
OF_BASE = "base: other clients' texts, from the untuned base."
ALL = "all"

CATEGORIES = {
    ALL: "all",
    "verbatim": "verbatim",
    "idea": "idea",
    "paraphrase_high": "paraphrase",
    "paraphrase_low": "p <= 0.5",
}
"""Values of scope.category in reading order, as people read them."""

TEXTS = {"input": "text", "output": "answer", "generation": "continuation"}
MOST_PAIRS, MOST_VARIANTS = 36, 100
LABEL = "TEXT"
HIDDEN = frozenset({"attacker", "victim", "category", "variant", "document", "text", "client"})
"""The keys of a scope that columns show."""


def rows(report: Row, *metrics: str) -> list[Row]:
    """Return the measurements of memorization, in the order of the report."""
    names = metrics or MEMORIZATION
    all_rows = [row for row in report["measurements"] if row["kind"] == "memorization"]
    return [row for row in all_rows if row["metric"] in names]


def tables(report: Row) -> list[Table]:
    """Return the ratios, the pairs, the lengths, and the texts that were drawn most."""
    ratios = rows(report, *OVERALL_METRICS)
    if len(grouping.variants_of(ratios)) > 1:
        return [_variants(ratios)]
    all_tables = (_ratios(ratios), _pairs(report), _lengths(report), _drawn_texts(report))
    return [table for table in all_tables if table.rows]


def memorization_sentence(report: Row) -> list[str]:
    """Return what was asked and what came of it, in a sentence or two."""
    ratios = [row for row in rows(report, *OVERALL_METRICS) if category(row) == ALL]
    if (variant_count := len(grouping.variants_of(ratios))) > 1:
        return [f"Memorization was measured on {variant_count} variants; a table compares them."]
    sentences = []
    inter = [row for row in ratios if row["metric"] == "mr_inter"]
    for row in inter:
        if source_of(row) == "tuned":
            intra = _matching_row(ratios, row, "mr_intra")
            total = _matching_row(ratios, row, "mr_total")
            n = NOT_MEASURED if total is None else number(total["n"])
            base = _share(comparable_row(inter, row, "base"))
            sentences.append(
                f"The tuned model continued {n} prefixes of the clients' texts: {_share(intra)} "
                f"drew something of the client's own texts, {_share(row)} something of another "
                f"client's; from its base, {base} did the latter."
            )
    return sentences


def passage_table(report: Row, most: int) -> list[Table]:
    """Return the table of the worst passages that were drawn, masked, with their outlines."""
    examples = [finding for finding in report["findings"] if is_example(finding)]
    cells = [
        {
            "severity": finding["severity"],
            "passage": readable_mask({"label": finding["label"], **finding["evidence"]}),
            "how": display_name(CATEGORIES, finding["evidence"].get("category")),
            "from": format_cell(finding["evidence"].get("attacker")),
            "of": format_cell(finding["evidence"].get("victim")),
            "text": format_cell(finding["evidence"].get("document")),
            "times": format_cell(finding["evidence"].get("prefixes")),
            "where": format_cell(finding["evidence"].get("training")),
        }
        for finding in examples
    ]
    columns = ("severity", "passage", "how", "from", "of", "text", "times", "where")
    notes = ("from: whose prefix; of: whose text; where in it the match lies: =.",)
    title = "Passages that were drawn, masked"
    table = build_table(title, cells, columns, numeric=("times",), notes=notes)
    return [shorten(table, most)] if examples else []


def is_example(finding: Row) -> bool:
    """Tell whether a finding is a passage of a training text that was drawn."""
    evidence = finding["evidence"]
    return bool(finding["label"] == LABEL) and {"hmac", "length", "victim"} <= evidence.keys()


def _ratios(ratios: Sequence[Row]) -> Table:
    """Return a line for each model and category: own texts, others', anybody's."""
    groups: dict[tuple[str, str], dict[str, Row]] = {}
    for row in sorted(ratios, key=_order):
        groups.setdefault((source_of(row), category(row)), {})[row["metric"]] = row
    cells = [
        {
            "model": display_name(SOURCES, source),
            "how": display_name(CATEGORIES, category),
            **{title: _value(group.get(metric)) for metric, title in COLUMNS.items()},
        }
        for (source, category), group in groups.items()
    ]
    columns = ("model", "how", *COLUMNS.values())
    return build_table(
        "Memorization: prefixes that drew a text",
        cells,
        columns,
        numeric=columns[2:],
        notes=(LEGEND, _sizes(ratios), *common_note(_throughout(ratios)), *missing_reasons(ratios)),
    )


def _variants(ratios: Sequence[Row]) -> Table:
    """Return a line for each variant of a study, of the tuned model beside its base."""
    totals = [row for row in ratios if category(row) == ALL]
    groups: dict[str, list[Row]] = {}
    for row in totals:
        groups.setdefault(grouping.variant_of(row), []).append(row)
    cells = []
    for name, group in groups.items():
        line = {"variant": name or NONE}
        for row in group:
            if source_of(row) == "tuned":
                line[f"{COLUMNS[row['metric']]} %"] = _bare(format_measurement(row))
            elif row["metric"] == "mr_total" and source_of(row) == "central":
                line["central, any %"] = _bare(percent(row["value"]))
            elif row["metric"] == "mr_inter" and source_of(row) == "base":
                line["base %"] = _bare(percent(row["value"]))
        cells.append(line)
    shares = (f"{title} %" for title in COLUMNS.values())
    columns = ("variant", *shares, "base %", "central, any %")
    table = build_table(
        "Memorization by variant: prefixes that drew a text",
        cells,
        columns,
        numeric=columns[1:],
        notes=(LEGEND, OF_BASE, *common_note(_throughout(totals)), *missing_reasons(totals)),
    )
    return shorten(table, MOST_VARIANTS)


def _bare(share: str) -> str:
    """Return a share without the % sign, which the column's title has, to save room."""
    return share.replace(" %", "")


def _pairs(report: Row) -> Table:
    """Return a line for each pair of clients, of the tuned model."""
    pairs = rows(report, "mr_pair")
    tuned = [row for row in pairs if category(row) == ALL and source_of(row) == "tuned"]
    cells = [
        {
            "prefixes of": client_in_scope(row, "attacker"),
            "texts of": client_in_scope(row, "victim"),
            "found": format_hits(row),
            "share [95 %]": format_measurement(row),
            "base": percent(row["baseline"]) if row["baseline"] is not None else NONE,
        }
        for row in tuned
    ]
    columns = ("prefixes of", "texts of", "found", "share [95 %]", "base")
    table = build_table(
        "Memorization: whose prefixes drew whose texts",
        cells,
        columns,
        numeric=columns[2:],
        notes=missing_reasons(tuned),
    )
    return shorten(table, MOST_PAIRS)


def _lengths(report: Row) -> Table:
    """Return how long texts, answers and continuations are, and how many are left out."""
    medians = rows(report, "median_length")
    short = rows(report, "too_short")
    left_out = rows(report, "repetitive")
    cells = []
    for row in medians:
        client = str(row["scope"].get("attacker", ALL))
        generated = row["scope"].get("text") == "generation"
        cells.append(
            {
                "what": display_name(TEXTS, row["scope"].get("text")),
                "model": display_name(SOURCES, row["scope"].get("source")) if generated else NONE,
                "client": client,
                "texts": NONE if row["n"] is None else number(row["n"]),
                "median": number(row["value"]),
                "too short": _matching_share(short, row) if generated else NONE,
                "repetitive": _matching_share(left_out, row) if generated else NONE,
            }
        )
    columns = ("what", "model", "client", "texts", "median", "too short", "repetitive")
    note = "Median in tokens. Too short: under 50 characters. Repetitive ones are left out."
    table = build_table("Memorization: lengths", cells, columns, numeric=columns[3:], notes=(note,))
    return shorten(table, MOST_PAIRS)


def _matching_share(shares: Iterable[Row], row: Row) -> str:
    """Return the share that was measured for the same model and client."""
    same = (r for r in shares if _measured_at(r) == _measured_at(row))
    return next((percent(r["value"]) for r in same), NONE)


def _measured_at(row: Row) -> tuple[str, str, str]:
    return source_of(row), grouping.variant_of(row), str(row["scope"].get("attacker", ALL))


def _drawn_texts(report: Row) -> Table:
    """Return the texts that most prefixes drew from the tuned model."""
    texts = [row for row in rows(report, "drawn") if source_of(row) == "tuned"]
    cells = [
        {
            "client": client_in_scope(row, "victim"),
            "text": str(row["scope"].get("document", NONE)),
            "prefixes": number(row["value"]),
        }
        for row in texts
    ]
    return build_table(
        "Memorization: texts that were drawn most",
        cells,
        ("client", "text", "prefixes"),
        numeric=("prefixes",),
    )


def _throughout(ratios: Sequence[Row]) -> str:
    places = {query.scope_of(row, HIDDEN) for row in ratios}
    return places.pop() if len(places) == 1 else ""


def _order(row: Row) -> tuple[int, int]:
    sources, categories = [*SOURCES], [*CATEGORIES]
    model, row_category = source_of(row), category(row)
    return (
        sources.index(model) if model in sources else len(sources),
        categories.index(row_category) if row_category in categories else len(categories),
    )


def _sizes(ratios: Sequence[Row]) -> str:
    """Return how many prefixes of each model count."""
    counts = {
        f"{number(row['n'])} ({display_name(SOURCES, source_of(row))})": None
        for row in ratios
        if row["metric"] == "mr_total" and row["n"] is not None
    }
    return f"Prefixes: {', '.join(counts)}." if counts else ""


def _value(row: Row | None) -> str:
    return NONE if row is None else format_measurement(row)


def _share(row: Row | None) -> str:
    return NOT_MEASURED if row is None else format_measurement(row)


def _matching_row(ratios: Sequence[Row], row: Row, metric: str) -> Row | None:
    return next((r for r in ratios if r["metric"] == metric and r["scope"] == row["scope"]), None)


def source_of(row: Row) -> str:
    """Return the model that a row is of."""
    return str(row["scope"].get("source"))


def category(row: Row) -> str:
    """Return in which way the texts that a row counts were drawn."""
    return str(row["scope"].get("category"))


def client_in_scope(row: Row, key: str) -> str:
    """Return the client that `key` of a row's scope names."""
    return str(row["scope"].get(key, NONE))
