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


def untuned_seeds(n_seeds: int, first: int, tuned: Sequence[int]) -> list[int]:
    """Return `n_seeds` seeds from `first` on, without those that settings were tuned on."""
    return list(islice((seed for seed in count(first) if seed not in tuned), n_seeds))


def mean_rows(
    by_seed: Mapping[int, Sequence[Measurement]], *, same_records: bool
) -> list[Measurement]:
    """Return the mean over seeds of every row that all of them have, in the first one's order.

    The interval of 95 % is the wider of two: Student's t over the seeds' values, which holds what
    training, records and chance move from seed to seed; and the rows' own intervals taken together,
    which hold what records and chance move within one: independent from seed to seed, or the same
    for all with the `same_records`. Counts add up in n. Hits are left out: where seeds have unlike
    n, the mean is not their share. A row that one seed could not measure has its reason.
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
        values, [row.low for row in rows], [row.high for row in rows], same_records=same_records
    )
    is_share = rows[0].metric in share_metrics() or all(row.hits is not None for row in rows)
    if high is not None and is_share:
        high = min(1.0, high)
    return replace(mean, value=fmean(values), low=low, high=high)


def _mean_of(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return fmean(numbers) if len(numbers) == len(values) else None


def interval(
    values: Sequence[float],
    lows: Sequence[float | None],
    highs: Sequence[float | None],
    *,
    same_records: bool,
) -> tuple[float | None, float | None]:
    """Return the interval of the mean over seeds of values with intervals of their own, if any.

    It does not go below 0 where no row does. Where a row's has no high end, neither has it.
    """
    mean, margins = fmean(values), mean_margins(values, lows, highs, same_records=same_records)
    if margins is None:
        return None, None
    known_lows = [low for low in lows if low is not None]
    least = 0.0 if min((*values, *known_lows)) >= 0 else -math.inf
    below, above = margins
    return max(least, mean - below), None if above is None else mean + above


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


def _list_seeds(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))
