"""Pooling: one row over all clients for the counts that were measured at each."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from fedaudit.api.records import Measurement
from fedaudit.metrics.intervals import wilson
from fedaudit.metrics.replication import mean_margins

EVERYBODY = "all"


def pool_counts(
    rows: Iterable[Measurement], over: str = "client", name: str = EVERYBODY
) -> list[Measurement]:
    """Return a row with scope.client "all" for rows of counts that differ in their client only.

    `over` is another scope key that they may differ in, and `name` its value when pooled. Hits
    and n are summed and the interval is Wilson's; baseline and chance are means weighted by n.
    Where one row has no number, neither has the pooled one. Rows that do not count, those that are
    pooled already, and those whose value is not their share of hits are left out.
    """
    groups = _groups((r for r in rows if r.n is not None and r.scope.get(over, name) != name), over)
    counted = [same for same in groups if any(row.hits is not None for row in same)]
    return [_pooled_row(same, over, name) for same in counted if not any(map(_no_share, same))]


def _no_share(row: Measurement) -> bool:
    """Tell whether a value is not the share hits / n, but a mean that has hits beside it.

    Nor is it a share where hits exceed n: one answer can give two targets.
    """
    if row.hits is None or not row.n or row.value is None:
        return False
    return row.hits > row.n or not math.isclose(row.value, row.hits / row.n, abs_tol=1e-9)


def average_means(rows: Iterable[Measurement], over: str, name: str) -> list[Measurement]:
    """Return the mean over `over` of rows that are means themselves: of n things, without hits.

    The interval is `mean_margins`', of independent values. Where one row has no number, neither
    has the mean.
    """
    means = (row for row in rows if row.n and row.hits is None and "clients" in row.scope)
    return [_mean_of_means(same, over, name) for same in _groups(means, over)]


def mean_over_clients(rows: Iterable[Measurement]) -> list[Measurement]:
    """Return the plain mean over clients of rows that differ in their client only.

    The mean has no interval, since the clients are not a sample of a population.
    """
    return [
        replace(
            same[0],
            value=_mean([(row.value, 1) for row in same]),
            scope={**same[0].scope, "client": EVERYBODY},
        )
        for same in _groups(rows, "client")
    ]


def _mean_of_means(rows: Sequence[Measurement], over: str, name: str) -> Measurement:
    scope, n = {**rows[0].scope, over: name}, sum(row.n or 0 for row in rows)
    if blind := [row for row in rows if row.value is None]:
        reason = f"not measured at {blind[0].scope[over]}: {blind[0].reason or 'there was nothing'}"
        nothing = replace(rows[0], value=None, low=None, high=None, n=n, scope=scope)
        return replace(nothing, reason=reason)
    values = [row.value for row in rows if row.value is not None]
    mean = fmean(values)
    below, above = mean_margins(
        values, [row.low for row in rows], [row.high for row in rows], same_records=False
    ) or (None, None)
    return replace(
        rows[0],
        value=mean,
        low=None if below is None else mean - below,
        high=None if above is None else mean + above,
        n=n,
        scope=scope,
    )


def average_rouge_over_clients(rows: Iterable[Measurement]) -> list[Measurement]:
    """Return the mean Rouge-L over the clients that were asked about their own answers.

    The mean is weighted by n. Clients answer different prompts, so errors are independent.
    """
    answered = (
        row
        for row in rows
        if (row.kind, row.metric) == ("extraction", "rouge_l") and "client" in row.scope
    )
    return [_weighted_row(same, "client", EVERYBODY) for same in _groups(answered, "client")]


def average_ratios(rows: Iterable[Measurement], over: str, name: str) -> list[Measurement]:
    """Return the mean over `over` of the memorization ratios that are weighted means themselves.

    They are weighted by n, and their errors are independent: the interval is MOVER's, as that of
    the ratios (Zou and Donner 2008). Where one has no number, neither has the mean.
    """
    ratios = (row for row in rows if row.metric in ("mr_intra", "mr_inter"))
    return [_weighted_row(same, over, name) for same in _groups(ratios, over)]


def _weighted_row(rows: Sequence[Measurement], over: str, name: str) -> Measurement:
    scope = {**rows[0].scope, over: name}
    total = sum(row.n or 0 for row in rows)
    value = None if not total else _mean([(row.value, row.n or 0) for row in rows])
    if value is None:
        why = next((row.reason for row in rows if row.reason), "nothing was asked")
        nothing = replace(rows[0], value=None, low=None, high=None, baseline=None, n=total)
        return replace(nothing, reason=why, scope=scope)
    below, above = (
        math.hypot(*((row.n or 0) / total * (getattr(row, end) - row.value) for row in rows))
        for end in ("low", "high")
    )
    # A difference of two models may be below 0; a ratio or a Rouge-L may not.
    least = -1.0 if scope.get("source") == "tuned-not-base" else 0.0
    return replace(
        rows[0],
        value=value,
        low=max(least, value - below),
        high=min(1.0, value + above),
        n=total,
        baseline=_mean([(row.baseline, row.n or 0) for row in rows]),
        scope=scope,
    )


def _groups(rows: Iterable[Measurement], over: str) -> Iterable[list[Measurement]]:
    """Return rows in groups that differ in the scope key `over` only."""
    groups: dict[tuple[object, ...], list[Measurement]] = {}
    for row in rows:
        scope = sorted((key, str(value)) for key, value in row.scope.items() if key != over)
        groups.setdefault((row.kind, row.plugin, row.metric, *scope), []).append(row)
    return groups.values()


def _pooled_row(rows: Sequence[Measurement], over: str, name: str) -> Measurement:
    scope: Mapping[str, object] = {**rows[0].scope, over: name}
    if blind := [row for row in rows if row.hits is None or not row.n]:
        names = ", ".join(str(row.scope[over]) for row in blind)
        reason = f"not measured at {names}: {blind[0].reason or 'there was nothing to count'}"
        nothing = replace(rows[0], value=None, low=None, high=None, hits=None, n=0, reason=reason)
        return replace(nothing, scope=scope, baseline=None, chance=None)
    hits, n = sum(row.hits or 0 for row in rows), sum(row.n or 0 for row in rows)
    estimate = wilson(hits, n)
    return replace(
        rows[0],
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        hits=hits,
        n=n,
        chance=_mean([(row.chance, row.n or 0) for row in rows]),
        baseline=_mean([(row.baseline, row.n or 0) for row in rows]),
        scope=scope,
    )


def _mean(values: Sequence[tuple[float | None, int]]) -> float | None:
    """Return the mean weighted by n, where every value is known."""
    pairs = [(value, n) for value, n in values if value is not None]
    if len(pairs) < len(values):
        return None
    return sum(value * n for value, n in pairs) / sum(n for _, n in pairs)
