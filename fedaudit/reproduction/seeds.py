"""Several seeds of a study: each row as a mean over them, and what each of them says of a claim."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count, islice
from statistics import fmean

from fedaudit.api.records import Claim, Measurement
from fedaudit.metrics.replication import mean_margins
from fedaudit.report.document import share_metrics
from fedaudit.reproduction.claims import NOT_MEASURED, Measured

COUNTS = frozenset({"members", "others", "groups", "beside", "space"})
"""Scope keys that count records, and so differ from seed to seed."""

BUDGET = frozenset({"budget"})
"""Where `budgets` says which budget is meant, its number of questions is such a count as well."""

DIFFERENCES = frozenset({"tuned-not-base", "base-not-tuned", "beyond-held-out"})
"""Values of scope.source with which a Rouge-L is that of one model less that of another."""

NOT_NEGATIVE = frozenset({
    "bleu", "bytes_sent", "edit_deviation", "edit_distance", "efficiency", "epsilon", "exposure",
    "flops", "kinds", "loss", "median_length", "overhead", "perplexity", "persons", "queries",
    "queries_per_person", "seconds", "sets", "sums", "vx_pii",
})  # fmt: skip
"""Metrics that are at least 0 and may be above 1."""


def untuned_seeds(n_seeds: int, first: int, tuned: Sequence[int]) -> list[int]:
    """Return `n_seeds` seeds from `first` on, without those that settings were tuned on."""
    return list(islice((seed for seed in count(first) if seed not in tuned), n_seeds))


def mean_rows(
    by_seed: Mapping[int, Sequence[Measurement]], *, same_records: bool
) -> list[Measurement]:
    """Return the mean over seeds of every row that all of them have, in the first one's order.

    The interval of 95 % is that of `mean_margins`, of Student's t over the seeds' values and of the
    rows' own intervals; it ends where values of the metric do. Counts add up in n. Hits are left
    out: where seeds have unlike n, the mean is not their share. A row that one seed could not
    measure has its reason.
    """
    tables = [{_key(row): row for row in reversed(rows)} for rows in by_seed.values()]
    first = next(iter(by_seed.values()), ())
    keys = dict.fromkeys(key for key in map(_key, first) if all(key in table for table in tables))
    return [_mean([table[key] for table in tables], list(by_seed), same_records) for key in keys]


def _key(row: Measurement) -> tuple[object, ...]:
    left_out = COUNTS | (BUDGET if "budgets" in row.scope else frozenset())
    scope = sorted((key, str(value)) for key, value in row.scope.items() if key not in left_out)
    return (row.kind, row.plugin, row.metric, *scope)


def _mean(rows: Sequence[Measurement], seeds: Sequence[int], same_records: bool) -> Measurement:
    total = sum(row.n for row in rows if row.n is not None)
    n = total if all(row.n is not None for row in rows) else None
    same = {key: {str(row.scope.get(key)) for row in rows} for key in COUNTS | BUDGET}
    mean = replace(
        rows[0],
        scope={k: v for k, v in rows[0].scope.items() if len(same.get(k, "1")) == 1},
        n=n,
        hits=None,
        baseline=_mean_of([row.baseline for row in rows]),
        chance=_mean_of([row.chance for row in rows]),
    )
    for seed, row in zip(seeds, rows, strict=True):
        if row.value is None:
            reason = f"not measured with seed {seed}: {row.reason or 'there was nothing to count'}"
            return replace(mean, value=None, low=None, high=None, reason=reason)
    values = [row.value for row in rows if row.value is not None]
    low, high = interval(
        values,
        [row.low for row in rows],
        [row.high for row in rows],
        same_records=same_records,
        limits=_limits(rows),
    )
    return replace(mean, value=fmean(values), low=low, high=high)


def _limits(rows: Sequence[Measurement]) -> tuple[float, float]:
    """Return the least and the largest value that a metric can have, as far as it is known."""
    metric = rows[0].metric
    if metric == "rouge_l":
        return -1.0 if rows[0].scope.get("source") in DIFFERENCES else 0.0, 1.0
    if metric in NOT_NEGATIVE:  # some of these have hits, even more than n
        return 0.0, math.inf
    if metric in share_metrics() | {"auc", "p_value"} or all(row.hits is not None for row in rows):
        return 0.0, 1.0
    return -math.inf, math.inf


def _mean_of(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return fmean(numbers) if len(numbers) == len(values) else None


def interval(
    values: Sequence[float],
    lows: Sequence[float | None],
    highs: Sequence[float | None],
    *,
    same_records: bool,
    limits: tuple[float, float] = (0.0, 1.0),
) -> tuple[float | None, float | None]:
    """Return the interval of the mean over seeds of values with intervals of their own, if any.

    It does not leave `limits`, and has no high end where the interval of a row has none.
    """
    mean, margins = fmean(values), mean_margins(values, lows, highs, same_records=same_records)
    if margins is None:
        return None, None
    below, above = margins
    return max(limits[0], mean - below), None if above is None else min(limits[1], mean + above)


def claims_with_seed_counts(
    claims: Iterable[Claim], by_seed: Mapping[int, Mapping[str, Claim]]
) -> list[Claim]:
    """Return claims about means over seeds, each with how many seeds support it alone.

    A claim that no seed measured has no such count.
    """
    seeds = ", ".join(map(str, by_seed))
    result = []
    for claim in claims:
        seed_claims = [claims_of[claim.id] for claims_of in by_seed.values()]
        if all(c.detail.startswith(NOT_MEASURED) for c in seed_claims):
            result.append(claim)
            continue
        held_count = sum(c.holds is True for c in seed_claims)
        details = "; ".join(c.detail.split(";")[0] for c in seed_claims)
        detail = (
            f"{claim.detail}; alone it holds with {held_count} of {len(seed_claims)} seeds "
            f"({seeds}: {details})"
        )
        result.append(replace(claim, detail=detail))
    return result


def measured_means(
    by_seed: Mapping[int, Measured], *, same_records: bool
) -> dict[str, Sequence[Measurement]]:
    """Return what was measured of each variant and pool, as means over seeds."""
    names = dict.fromkeys(name for measured in by_seed.values() for name in measured)
    return {
        name: mean_rows(
            {seed: measured[name] for seed, measured in by_seed.items()}, same_records=same_records
        )
        for name in names
    }


def describe_seeds(seeds: Sequence[int], tuned: Sequence[int]) -> str:
    """Return a description of what numbers over several seeds are."""
    without = (
        f"; settings were tuned on {_list_seeds(tuned)}, which are none of them" if tuned else ""
    )
    return (
        f"numbers are means over the seeds {_list_seeds(seeds)}, with intervals that hold seeds "
        f"and records; claims are open where intervals overlap{without}"
    )


def describe_tuned(tuned: Sequence[int], used: Iterable[int]) -> str:
    """Return what to say of seeds that settings were tuned on and claims are judged with, or ""."""
    both = [seed for seed in dict.fromkeys(used) if seed in tuned]
    if not both:
        return ""
    return (
        f"settings were tuned on seed {_list_seeds(both)}: what claims say of a single federation "
        "is judged on it here, and on others with --seeds"
    )


def _list_seeds(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))
