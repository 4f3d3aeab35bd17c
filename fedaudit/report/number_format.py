"""How numbers of a report are spelt for people."""

from collections.abc import Mapping, Sequence
from typing import Any

RATES = {
    "coverage", "accuracy", "inference_accuracy", "extraction_precision", "extraction_recall",
    "routing_accuracy", "tpr", "fpr", "overlap", "unseen", "extractable", "leaking_answers",
    "leaking_requests", "precision", "learnt",
    "mr_pair", "mr_intra", "mr_inter", "mr_total", "repetitive", "too_short", "searched",
    "judge_win", "judge_tie", "judge_lose", "judge_win_tie", "judge_malformed",
    "dropped", "maximal_exposure", "source_accuracy", "tpr_by_group",
}  # fmt: skip
"""Metrics of ours that are shares of n, shown in per cent."""

NOT_MEASURED = "not measured"


def is_rate(metric: str) -> bool:
    """Tell whether a metric is a share of n: one of ours, or a plugin's whose name says so."""
    return metric in RATES or metric.endswith("_rate")


def number(value: float | None) -> str:
    """Return a number with three significant digits, a whole one in full."""
    if value is None:
        return NOT_MEASURED
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.3g}" if abs(value) < 1000 or abs(value) >= 1e15 else f"{value:,.0f}"


def percent(share: float | None) -> str:
    """Return a share in per cent; a small one keeps two significant digits."""
    return NOT_MEASURED if share is None else f"{_hundredths(share)} %"


def as_percent(share: float) -> str:
    """Return a share that someone has set, with all its digits: `10%`, `0.5%`, `99.9%`."""
    return f"{100 * share:.6g}%"


def _hundredths(share: float) -> str:
    if 0 < share < 0.001:
        return f"{100 * share:.2g}"
    return f"{100 * share:.1f}"


def format_measurement(row: Mapping[str, Any]) -> str:
    """Return the value of a measurement with its interval: `12.3 % [10.1, 15.2]`."""
    value, low, high = row["value"], row["low"], row["high"]
    if value is None:
        return NOT_MEASURED
    rate = is_rate(row["metric"])
    text = percent(value) if rate else number(value)
    if low is None or high is None:
        return text
    spelt = _hundredths if rate else number
    return f"{text} [{spelt(low)}, {spelt(high)}]"


def format_value(metric: str, value: float) -> str:
    """Return a number of this metric without its interval: `12.3 %`, `0.98`."""
    return percent(value) if is_rate(metric) else number(value)


def format_difference(metric: str, value: float, low: float | None, high: float | None) -> str:
    """Return how two numbers differ, with the interval: `-1.5 points [-3.2, +0.1]`, `+0.02`.

    Points are percentage points.
    """
    spelt, unit = (_points, " points") if is_rate(metric) else ("{:+.3g}".format, "")
    text = f"{spelt(value)}{unit}"
    return text if low is None or high is None else f"{text} [{spelt(low)}, {spelt(high)}]"


def _points(difference: float) -> str:
    """Return a difference of shares in points; a small one keeps two significant digits."""
    points = 100 * difference + 0.0  # -0 is 0
    return f"{points:+.2g}" if 0 < abs(points) < 0.1 else f"{points:+.1f}"


def format_hits(row: Mapping[str, Any]) -> str:
    """Return hits and n of a measurement: `118 / 4,210`; expected hits are `~12.4 / 500`."""
    value, hits, n = row["value"], row["hits"], row["n"]
    if value is None:
        return NOT_MEASURED
    if n is None:
        return "-" if hits is None else f"{hits:,}"
    return f"~{number(value * n)} / {n:,}" if hits is None else f"{hits:,} / {n:,}"


def first_of(texts: Sequence[str], most: int, rest: str = "and {:,} more") -> list[str]:
    """Return the first `most` texts, and behind them how many more there are, in words (`rest`)."""
    remaining = len(texts) - most
    return [*texts[:most], *([rest.format(remaining)] if remaining > 0 else [])]


def count(row: Mapping[str, Any]) -> str:
    """Return the n of a measurement."""
    return "-" if row["n"] is None else number(row["n"])


def format_rate(row: Mapping[str, Any]) -> str:
    """Return a rate in words; 0 of n and n of n come with one bound instead of an interval.

    `0 of 100,000, at most 0.0038 %`, `200 of 200, at least 98.1 %`, `3 of 52, 5.8 % [2.0, 15.6]`.
    """
    hits, n, low, high = row["hits"], row["n"], row["low"], row["high"]
    if row["value"] is None or hits is None or n is None or low is None or high is None:
        return format_measurement(row)
    ratio = f"{hits:,} of {n:,}"
    if hits == 0:
        return f"{ratio}, at most {percent(high)}"
    return (
        f"{ratio}, at least {percent(low)}" if hits == n else f"{ratio}, {format_measurement(row)}"
    )
