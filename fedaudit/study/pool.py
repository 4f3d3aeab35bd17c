"""Pooling: one row over all clients for the counts that were measured at each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fedaudit.metrics.intervals import wilson
from fedaudit.records import Measurement

EVERYBODY = "all"


def pooled(rows: Iterable[Measurement]) -> list[Measurement]:
    """Return a row with scope.client "all" for rows that differ in their client only.

    Hits and n are summed and the interval is Wilson's; a baseline is the mean weighted by n. Rows
    that do not count are left out.
    """
    groups: dict[tuple[object, ...], list[Measurement]] = {}
    for row in rows:
        if row.hits is not None and row.n and "client" in row.scope:
            groups.setdefault(_apart_from_client(row), []).append(row)
    return [_pooled(same) for same in groups.values()]


def _apart_from_client(row: Measurement) -> tuple[object, ...]:
    scope = {key: str(value) for key, value in row.scope.items() if key != "client"}
    return (row.kind, row.plugin, row.metric, row.chance, *sorted(scope.items()))


def _pooled(rows: Sequence[Measurement]) -> Measurement:
    hits, n = sum(row.hits or 0 for row in rows), sum(row.n or 0 for row in rows)
    estimate = wilson(hits, n)
    known = [(row.baseline, row.n or 0) for row in rows if row.baseline is not None]
    baseline = sum(b * k for b, k in known) / n if len(known) == len(rows) else None
    scope: Mapping[str, object] = {**rows[0].scope, "client": EVERYBODY}
    return replace(
        rows[0],
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        hits=hits,
        n=n,
        baseline=baseline,
        scope=scope,
    )
