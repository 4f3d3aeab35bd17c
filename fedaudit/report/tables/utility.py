"""The tables of utility: how well each model does its tasks, and a deployed one under keys."""

from collections.abc import Mapping, Sequence

from fedaudit.api.kind import Table
from fedaudit.report import query as measurements
from fedaudit.report.number_format import count, format_measurement
from fedaudit.report.query import SOURCES, UTILITY, Row, common_scope, group_by, missing_reasons
from fedaudit.report.tables import grouping
from fedaudit.report.tables.grouping import EVERYBODY, KEYS, client_of, variant_of
from fedaudit.report.tables.table import (
    NONE,
    build_table,
    common_note,
    display_name,
    model_name,
    value_text,
)

Line = tuple[str, str, str, str]
"""Variant, task, model and remaining scope of a line in the ordinary tables."""

ALONE_SUFFIX = " alone"
"""Suffix of scope.adapter where an adapter was asked without the defence."""
SHARED = "shared alone"
ADAPTER_ALONE = "adapter alone"
COLUMNS = (KEYS["right"], ADAPTER_ALONE, KEYS["none"], SHARED, KEYS["wrong"], KEYS["other"])

LOWER = "Lower is better. 95 % intervals are in report.json."

DATA = {"own": "own", "held-out": "held out"}
"""Values of scope.data in reading order, as people read them."""


def utility(report: Row) -> list[Table]:
    """Return how well each model does its tasks: a table for what is measured in the same way."""
    rows = [row for row in measurements.utility(report) if not _is_deployed(row)]
    is_study = len(grouping.variants_of(rows)) > 1
    rows = grouping.without_covered_clients(rows)
    groups = measurements.by_plugin(rows).values()
    return [table for group in groups for table in _tables_of(group, is_study)]


def _tables_of(rows: Sequence[Row], is_study: bool) -> list[Table]:
    """Return the tables of what one plugin measured: of losses and overlaps, or of verdicts."""
    shared, scopes = common_scope(rows, {"variant"} if is_study else ())
    lines: dict[Line, dict[str, Row]] = {}
    for row, scope in zip(rows, scopes, strict=True):
        task = str(row["scope"].get("task", NONE))
        line = (variant_of(row) if is_study else "", task, model_name(row), scope)
        lines.setdefault(line, {})[row["metric"]] = row
    alike = group_by(lines, lambda line: tuple(name for name in UTILITY if name in lines[line]))
    return [
        _utility(metrics, {line: lines[line] for line in group}, shared)
        for metrics, group in alike.items()
    ]


def _utility(
    metrics: tuple[str, ...], lines: Mapping[Line, Mapping[str, Row]], shared: str
) -> Table:
    cells = [
        {
            "variant": name,
            "task": task,
            "model": model,
            **{metric: format_measurement(rows[metric]) for metric in metrics},
            "n": "/".join(dict.fromkeys(count(row) for row in rows.values())),
            "where": scope,
        }
        for (name, task, model, scope), rows in lines.items()
    ]
    return build_table(
        f"Utility: {', '.join(metrics)}",
        _merge_lines(cells),
        ("variant", "task", "model", *metrics, "n", "where"),
        numeric=(*metrics, "n"),
        notes=(
            *common_note(shared),
            *missing_reasons(r for rows in lines.values() for r in rows.values()),
        ),
    )


def _merge_lines(cells: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Return the lines; variants with the same line of a model other than the tuned share one."""

    def same(line: dict[str, str]) -> tuple[str, ...]:
        variant = line["variant"] if line["model"] == SOURCES["tuned"] else ""
        return (variant, *(text for name, text in line.items() if name != "variant"))

    def merged(group: Sequence[dict[str, str]]) -> dict[str, str]:
        first, more = min(line["variant"] for line in group), len(group) - 1
        return {**group[0], "variant": f"{first} and {more} more"} if more else group[0]

    return [merged(group) for group in group_by(cells, same).values()]


def keyed_utility_tables(report: Row) -> list[Table]:
    """Return the perplexity of what clients deployed: under keys, and of each adapter alone."""
    every = [row for row in measurements.utility(report) if _is_deployed(row)]
    rows = _by_client(grouping.without_covered_clients(every))
    if not rows:
        return []
    adapters = sorted({name for row in rows if (name := _revealing(row))})
    shared, scopes = common_scope(
        rows, {"client", "data", "key", "adapter"} | grouping.column_scopes(rows)
    )
    is_study = len(grouping.variants_of(rows)) > 1
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for row, scope in zip(rows, scopes, strict=True):
        for adapter in [_revealing(row)] if _revealing(row) else adapters or [""]:
            line = {
                "variant": variant_of(row) if is_study else "",
                "client": client_of(row),
                "texts": display_name(DATA, row["scope"].get("data")),
                "adapter": adapter if len(adapters) > 1 else "",
                "where": scope,
            }
            cells.setdefault(tuple(line.values()), line).setdefault(_column(row), value_text(row))
    return [
        build_table(
            "Perplexity under keys",
            list(cells.values()),
            ("variant", "client", "texts", "adapter", *COLUMNS, "where"),
            numeric=COLUMNS,
            notes=(LOWER, *common_note(shared), *missing_reasons(every)),
        )
    ]


def _is_deployed(row: Row) -> bool:
    """Tell whether a row is the perplexity of what a client deployed."""
    scope = row["scope"]
    return (
        row["metric"] == "perplexity"
        and "client" in scope
        and "task" not in scope
        and scope.get("source") == "tuned"
        and (str(scope.get("key")) in KEYS or str(scope.get("adapter")).endswith(ALONE_SUFFIX))
    )


def _by_client(rows: Sequence[Row]) -> list[Row]:
    """Return rows by variant, all clients first, then by texts."""
    order, texts = ["", *grouping.variants_of(rows)], [*DATA]
    clients = [EVERYBODY, *dict.fromkeys(map(client_of, rows))]

    def place(row: Row) -> tuple[int, int, int]:
        data = str(row["scope"].get("data"))
        rank = texts.index(data) if data in texts else len(texts)
        return order.index(variant_of(row)), clients.index(client_of(row)), rank

    return sorted(rows, key=place)


def _revealing(row: Row) -> str:
    """Return the adapter that a row is of, where a key may open several; "" if it names none."""
    adapter = str(row["scope"].get("adapter", ""))
    return "" if adapter == SHARED else adapter.removesuffix(ALONE_SUFFIX)


def _column(row: Row) -> str:
    kind = str(row["scope"].get("key"))
    if kind in KEYS:
        return KEYS[kind]
    return SHARED if row["scope"].get("adapter") == SHARED else ADAPTER_ALONE
