"""A paper's claims as comparisons of measurements, without evaluating code."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from fedaudit.api.records import Claim, Measurement
from fedaudit.config.profile import Profile, Published, Select, Statement
from fedaudit.metrics.replication import mean_margins

Measured = Mapping[str, Sequence[Measurement]]
"""Variant -> its measurements."""

_COMPARE = {
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
}

NOT_MEASURED = "not measured"
"""The beginning of the detail of a claim without numbers."""
OVERLAP = "the intervals overlap"
CONTAINMENT = "the interval holds that number"
NOTHING = "both are 0, which says nothing about their order"
NO_INTERVAL = "what is measured has no interval to judge the order by"
ONE_SEED = "one seed has no interval of the difference"
NO_VARIATION = "the difference is the same with each seed, which gives it no interval"
COUNTS = "counts are judged by their own intervals, not in pairs"
SAME_RECORDS = "seeds of the same records do not show what records do to the difference"


@dataclass(frozen=True, slots=True)
class _Side:
    """The value of one side of a claim; None, with the reason, where it was not measured."""

    number: float | None
    interval: tuple[float, float] | None = None
    """The interval of the value, if any: without an upper end it ends at infinity."""
    reason: str = ""
    exact: bool = False
    """Whether the value is a constant of the profile instead of a measurement."""
    counted: bool = False
    """Whether the value is a share of a count."""

    def scaled(self, factor: float, margin: float) -> "_Side":
        """Return factor * side + margin."""
        if self.number is None:
            return self
        bounds = sorted(factor * end + margin for end in self.interval or ())
        interval = (bounds[0], bounds[1]) if bounds else None
        return replace(self, number=factor * self.number + margin, interval=interval)


def check_claims(
    profile: Profile,
    measured: Measured,
    by_seed: Sequence[Measured] = (),
    *,
    same_records: bool = False,
) -> list[Claim]:
    """Return every claim of the profile; one whose variant did not run neither holds nor fails.

    The same goes for a claim whose intervals overlap or are missing, or hold the number that a
    value is compared with, unless it says `apart = false`. If `measured` has means over seeds, a
    `paired` claim is judged by the differences in `by_seed`, the measurements of each seed;
    `same_records` says whether all seeds had the same records.
    """
    return [_claim(statement, measured, by_seed, same_records) for statement in profile.claims]


def check_claims_of_seed(profile: Profile, measured: Measured) -> list[Claim]:
    """Return every claim as judged from one of several seeds; paired claims compare numbers."""
    alone = [
        replace(statement, paired=False, apart=False) if statement.paired else statement
        for statement in profile.claims
    ]
    return [_claim(statement, measured, (), same_records=False) for statement in alone]


def _claim(
    statement: Statement, measured: Measured, by_seed: Sequence[Measured], same_records: bool
) -> Claim:
    left, right = (_side(side, measured) for side in (statement.left, statement.right))
    holds, detail = _outcome(statement, left, right, by_seed, same_records)
    return Claim(
        id=statement.id,
        source=statement.source,
        statement=statement.statement,
        holds=holds,
        detail=detail,
    )


def _paired_outcome(
    statement: Statement, by_seed: Sequence[Measured], same_records: bool
) -> tuple[bool | None, str]:
    """Return whether the seeds' mean difference of both sides is surely on one side of 0.

    The interval of 95 % is Student's t over the differences, each of which holds what training,
    records and chance do to it. It needs values of which no two differences are equal by luck, as
    those of counts are, and records that are others with each seed.
    """
    if same_records:
        return None, SAME_RECORDS
    differences = []
    for measured in by_seed:
        left, right = (_side(side, measured) for side in (statement.left, statement.right))
        bound = right.scaled(statement.factor, statement.margin)
        if left.number is None or bound.number is None:
            return None, left.reason or bound.reason
        if left.counted or right.counted:
            return None, COUNTS
        differences.append(left.number - bound.number)
    unknown = [None] * len(differences)
    margins = mean_margins(differences, unknown, unknown, same_records=False) if by_seed else None
    if margins is None:
        return None, ONE_SEED
    if not margins[0]:
        return None, NO_VARIATION
    mean, margin = fmean(differences), margins[0]
    low, high = mean - margin, mean + margin
    detail = f"the difference is {mean:.4g} [{low:.4g}, {high:.4g}] over seeds"
    return (None if low <= 0 <= high else _COMPARE[statement.compare](mean, 0.0)), detail


def _outcome(
    statement: Statement,
    left: _Side,
    right: _Side,
    by_seed: Sequence[Measured],
    same_records: bool,
) -> tuple[bool | None, str]:
    """Return whether a claim holds, None where it stays open, and the numbers or the reason."""
    bound = right.scaled(statement.factor, statement.margin)
    if left.number is None or right.number is None or bound.number is None:
        return None, left.reason or right.reason
    detail = f"{left.number:.4g} {statement.compare} {bound.number:.4g}"
    if statement.something and left.number == right.number == 0:
        return None, f"{detail}; {NOTHING}"
    if statement.paired:
        holds, why = _paired_outcome(statement, by_seed, same_records)
        return holds, f"{detail}; {why}"
    holds = _COMPARE[statement.compare](left.number, bound.number)
    if statement.apart and None in (left.interval, bound.interval):
        return None, f"{detail}; {NO_INTERVAL}"
    if not _overlap(left, bound):
        return holds, detail
    why = CONTAINMENT if right.exact else OVERLAP
    return None if statement.apart else holds, f"{detail}; {why}"


def _overlap(left: _Side, right: _Side) -> bool:
    if left.interval is None or right.interval is None:
        return False
    return left.interval[0] <= right.interval[1] and right.interval[0] <= left.interval[1]


def _side(side: Select | float, measured: Measured) -> _Side:
    """Return the value of one side of a claim, with its interval if there is one."""
    if not isinstance(side, Select):
        return _Side(float(side), (float(side), float(side)), exact=True)
    row = find_row(measured.get(side.variant, ()), side.metric, side.scope, side.plugin)
    if row is None or row.value is None:
        why = f": {row.reason}" if row and row.reason else " in this run"
        return _Side(None, reason=NOT_MEASURED + why)
    if row.low is None:
        return _Side(row.value, counted=row.hits is not None)
    interval = (row.low, math.inf if row.high is None else row.high)
    return _Side(row.value, interval, counted=row.hits is not None)


def find_row(
    rows: Sequence[Measurement], metric: str, scope: Mapping[str, object], plugin: str = ""
) -> Measurement | None:
    """Return the only row of a metric whose scope holds `scope`, the least specific one."""
    fitting = [
        row
        for row in rows
        if row.metric == metric
        and plugin in ("", row.plugin)
        and all(row.scope.get(key) == value for key, value in scope.items())
    ]
    return min(fitting, key=lambda row: len(row.scope), default=None)


def compare_figures(
    figures: Sequence[Published], measured: Measured
) -> list[tuple[Published, float | None]]:
    """Return each published figure with ours; None where no variant measures it."""
    result: list[tuple[Published, float | None]] = []
    for figure in figures:
        row = find_row(measured.get(figure.variant, ()), figure.metric, figure.scope, figure.plugin)
        result.append((figure, row.value if row else None))
    return result
