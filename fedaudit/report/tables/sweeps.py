"""What smaller budgets and other numbers of samples would have found: a table an attack."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fedaudit.api.kind import Table
from fedaudit.report import query as measurements
from fedaudit.report.number_format import format_hits, format_measurement, number
from fedaudit.report.query import Row, group_by, same_scope_row, set_rank, source_rank
from fedaudit.report.tables import grouping
from fedaudit.report.tables.table import beside, cell_of, model_name, row_table, shorten, value_text

COVERAGE = "coverage [95 %]"
MOST_TABLES = 12

TITLES = {"coverage": "Coverage against budget", "efficiency": "Found per query against budget"}
SHOWN_KEYS = frozenset(
    {"source", "set", "label", "category", "budget", "samples", "key", "adapter"}
)
"""The keys of a scope that distinguish a sweep's points and curves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One attack's rows along its budget, all of one source, under one kind of key."""

    name: str
    coverage: tuple[Row, ...]
    efficiency: tuple[Row, ...]
    by_samples: tuple[Row, ...]
    """Coverages of the whole budget with fewer samples a prefix."""
    other_sources: tuple[Row, ...]
    """The same of other sources."""


def sweeps(report: Row) -> list[Sweep]:
    """Return the sweep of every attack and kind of key; of a study, that of the first variant."""
    groups = group_by(_sweep_rows(report), lambda row: (row["plugin"], grouping.key_text(row)))
    all_sweeps = (_sweep(name, key, _first(rows)) for (name, key), rows in groups.items())
    return [sweep for sweep in all_sweeps if sweep.coverage]


def by_budget(report: Row) -> list[Table]:
    """Return a table for each sweep, with a line for each power of ten and for the whole budget."""
    return [_budget_table(sweep) for sweep in sweeps(report)[:MOST_TABLES]]


def _sweep_rows(report: Row) -> list[Row]:
    return [
        row
        for row in report["measurements"]
        if row["kind"] == "extraction"
        and row["metric"] in TITLES
        and measurements.is_sweep(row)
        and not is_exact(row)
        and not {"label", "category"} & row["scope"].keys()
        and all(_counts(row["scope"][key]) for key in ("budget", "samples"))
        and None not in (row["value"], row["low"], row["high"])
    ]


def _counts(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _first(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that agree with the first one in all of the scope but SHOWN_KEYS."""

    def rest(row: Row) -> set[tuple[str, str]]:
        return {(k, str(v)) for k, v in row["scope"].items() if k not in SHOWN_KEYS}

    return [row for row in rows if rest(row) == rest(rows[0])]


def _sweep(plugin: str, key: str, rows: Sequence[Row]) -> Sweep:
    subset = min((row["scope"].get("set") for row in rows), key=lambda s: (s != "all", str(s)))
    set_rows = [row for row in rows if row["scope"].get("set") == subset]
    best_rank = min(map(source_rank, set_rows))
    best_rows = [row for row in set_rows if source_rank(row) == best_rank]
    most = max(row["scope"]["samples"] for row in best_rows)
    budget = max(row["scope"]["budget"] for row in best_rows)

    def sweep_rows(metric: str, axis: str, fixed: str, value: int) -> tuple[Row, ...]:
        points = (r for r in best_rows if r["metric"] == metric and r["scope"][fixed] == value)
        return tuple(sorted(points, key=lambda row: row["scope"][axis]))

    return Sweep(
        name=f"{plugin}, {grouping.KEYS.get(key, f'key {key}')}" if key else plugin,
        coverage=sweep_rows("coverage", "budget", "samples", most),
        efficiency=sweep_rows("efficiency", "budget", "samples", most),
        by_samples=sweep_rows("coverage", "samples", "budget", budget),
        other_sources=tuple(row for row in set_rows if row["metric"] == "coverage"),
    )


def _budget_table(sweep: Sweep) -> Table:
    rows, each = _decades(sweep.coverage), sweep.efficiency
    columns = {
        "prefixes": lambda row: number(row["scope"]["budget"]),
        "found": format_hits,
        COVERAGE: format_measurement,
        "per query": lambda r: cell_of(same_scope_row(each, r, "efficiency"), value_text),
        **{source: beside(sweep.other_sources, source) for source in ("base", "control")},
    }
    times = number(rows[0]["scope"]["samples"])
    return row_table(
        f"Coverage by budget: {sweep.name}",
        rows,
        columns,
        numeric=tuple(columns),
        notes=(
            f"Model: {model_name(rows[0])}. Each prefix was asked {times} times.",
            _by_samples(sweep),
        ),
    )


def _decades(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of budgets that are powers of ten, and the last."""
    return [row for row in rows if str(row["scope"]["budget"]).strip("0") == "1" or row is rows[-1]]


def _by_samples(sweep: Sweep) -> str:
    """Return what all prefixes give when each is asked less often."""
    texts = [
        f"{number(r['scope']['samples'])}: {format_measurement(r)}" for r in sweep.by_samples[:-1]
    ]
    return f"All prefixes, by how often each is asked: {'; '.join(texts)}." if texts else ""


ONE_RUN = "one run finds"
TABLE_KEYS = frozenset({"source", "set", "budget", "samples", "probability"})
"""The keys of a scope that distinguish the rows of one table."""


def is_exact(row: Row) -> bool:
    """Tell whether a row was computed and not sampled."""
    return bool(row["scope"].get("estimator") == "exact")


def expected(report: Row) -> list[Table]:
    """Return a table for each attack and kind of key; of a study, that of the first variant."""
    rows = [
        row
        for row in report["measurements"]
        if is_exact(row) and measurements.is_sweep(row) and "label" not in row["scope"]
    ]
    groups = group_by(rows, lambda row: (row["plugin"], grouping.key_text(row)))
    tables = [_expected_table(plugin, key, rows) for (plugin, key), rows in groups.items()]
    return [table for table in tables if table.rows][:MOST_TABLES]


def _expected_table(plugin: str, key: str, rows: Sequence[Row]) -> Table:
    selected = [row for row in rows if _other_keys(row) == _other_keys(rows[0])]
    subset = min(map(set_rank, selected))
    selected = [row for row in selected if set_rank(row) == subset]
    coverages = [row for row in selected if row["metric"] == "coverage"]
    best_rank = min(map(source_rank, coverages), default=0)
    best_rows = sorted(
        (row for row in coverages if source_rank(row) == best_rank),
        key=lambda r: r["scope"]["samples"],
    )
    needed = sorted({r["scope"]["probability"] for r in selected if r["metric"] == "extractable"})
    columns = {
        "samples": lambda row: number(row["scope"]["samples"]),
        "found": format_hits,
        ONE_RUN: lambda row: cell_of(same_scope_row(selected, row, "hits_of_one_run"), _range),
        COVERAGE: format_measurement,
        **{source: beside(coverages, source) for source in ("base", "control")},
        **{f"surely {100 * p:g} %": _extractable(selected, p) for p in needed},
    }
    source = model_name(best_rows[0]) if best_rows else ""
    title = f"Expected by samples: {plugin}"
    table = row_table(
        f"{title}, {grouping.KEYS.get(key, f'key {key}')}" if key else title,
        best_rows,
        columns,
        numeric=tuple(columns),
        unmeasured=(),
        notes=(
            f"Model: {source}. Computed, not sampled: what is found if every prefix is asked so "
            "often.",
            "One run finds: 95 % of runs do. The interval of the coverage is for other targets of "
            "their kind.",
            "Surely: targets that the tuned model gives with at least this probability.",
        ),
    )
    return shorten(table, 2 * MOST_TABLES)


def _other_keys(row: Row) -> set[tuple[str, str]]:
    return {(key, str(value)) for key, value in row["scope"].items() if key not in TABLE_KEYS}


def _range(row: Row) -> str:
    """Return how many targets 19 of 20 runs find: `15 to 21`."""
    return f"{number(row['low'])} to {number(row['high'])}"


def _extractable(rows: Sequence[Row], probability: float) -> Callable[[Row], str]:
    """Return what tells how many targets the tuned model gives with `probability`."""

    def cell(row: Row) -> str:
        scope = {"samples": row["scope"]["samples"], "source": "tuned", "probability": probability}
        extractable = (r for r in rows if r["metric"] == "extractable")
        fits = (r for r in extractable if scope.items() <= r["scope"].items())
        return cell_of(next(fits, None), format_hits)

    return cell
