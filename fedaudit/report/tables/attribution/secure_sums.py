"""The tables of what an attribution asked for, what that gives away, and how long it took."""

from collections.abc import Mapping, Sequence

from fedaudit.api.kind import Table
from fedaudit.report import units
from fedaudit.report.attribution_parts import attribution_rows
from fedaudit.report.number_format import NOT_MEASURED, number
from fedaudit.report.query import Row, missing_reasons
from fedaudit.report.tables import grouping
from fedaudit.report.tables.grouping import variant_of
from fedaudit.report.tables.table import NONE, build_table, shorten

MOST_VARIANTS = 100

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
    groups: dict[str, list[Row]] = {}
    for row in grouping.order_rows(_masking_and_time_rows(rows)):
        groups.setdefault(variant_of(row), []).append(row)
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
    return [
        *attribution_rows(report, "masking"),
        *attribution_rows(report, "time"),
    ]


def _worst(rows: Sequence[Row]) -> dict[str, tuple[Row, str]]:
    """Return the worst row of each amount, its round, and the number of rounds."""
    groups: dict[str, list[Row]] = {}
    for row in _masking_and_time_rows(rows):
        groups.setdefault(_name(row), []).append(row)
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
