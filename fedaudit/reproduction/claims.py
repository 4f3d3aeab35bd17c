"""A paper's claims as comparisons of measurements, without evaluating code."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fedaudit.api.records import Claim, Measurement
from fedaudit.config.profile import Profile, Published, Select, Statement

Measured = Mapping[str, Sequence[Measurement]]
"""Variant -> its measurements."""

_COMPARE = {
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
}

NOT_MEASURED = "not measured"
"""What the detail of a claim without numbers begins with."""
OVERLAP = "the intervals overlap"
CONTAINMENT = "the interval holds that number"
NOTHING = "both are 0, which says nothing about their order"
NO_INTERVAL = "what is measured has no interval to judge the order by"


@dataclass(frozen=True, slots=True)
class _Side:
    """The value of one side of a claim; None, with the reason, where it was not measured."""

    number: float | None
    interval: tuple[float, float] | None = None
    """The interval of the value, if any: without an upper end it ends at infinity."""
    reason: str = ""
    exact: bool = False
    """Whether it is a number of the profile, and not measured."""

    def scaled(self, factor: float, margin: float) -> "_Side":
        """Return factor * side + margin."""
        if self.number is None:
            return self
        bounds = sorted(factor * end + margin for end in self.interval or ())
        interval = (bounds[0], bounds[1]) if bounds else None
        return replace(self, number=factor * self.number + margin, interval=interval)


def check_claims(profile: Profile, measured: Measured) -> list[Claim]:
    """Return every claim of the profile; one whose variant did not run neither holds nor fails.

    Nor does one of two measured values with intervals that overlap, or without an interval, unless
    it says `apart = false`.
    """
    return [_claim(statement, measured) for statement in profile.claims]


def _claim(statement: Statement, measured: Measured) -> Claim:
    holds, detail = _outcome(
        statement, _side(statement.left, measured), _side(statement.right, measured)
    )
    return Claim(
        id=statement.id,
        source=statement.source,
        statement=statement.statement,
        holds=holds,
        detail=detail,
    )


def _outcome(statement: Statement, left: _Side, right: _Side) -> tuple[bool | None, str]:
    """Return whether a claim holds, None where it stays open, and the numbers or the reason."""
    bound = right.scaled(statement.factor, statement.margin)
    if left.number is None or right.number is None or bound.number is None:
        return None, left.reason or right.reason
    detail = f"{left.number:.4g} {statement.compare} {bound.number:.4g}"
    if statement.something and left.number == right.number == 0:
        return None, f"{detail}; {NOTHING}"
    holds = _COMPARE[statement.compare](left.number, bound.number)
    if statement.open_where_they_overlap and None in (left.interval, bound.interval):
        return None, f"{detail}; {NO_INTERVAL}"
    if not _overlap(left, bound) or (right.exact and not statement.open_where_they_overlap):
        return holds, detail
    why = CONTAINMENT if right.exact else OVERLAP
    return None if statement.open_where_they_overlap else holds, f"{detail}; {why}"


def _overlap(left: _Side, right: _Side) -> bool:
    if left.interval is None or right.interval is None:
        return False
    return left.interval[0] <= right.interval[1] and right.interval[0] <= left.interval[1]


def _side(side: Select | float, measured: Measured) -> _Side:
    """Return the value that one side of a claim means, and its interval, if any."""
    if not isinstance(side, Select):
        return _Side(float(side), (float(side), float(side)), exact=True)
    row = find_row(measured.get(side.variant, ()), side.metric, side.scope, side.plugin)
    if row is None or row.value is None:
        why = f": {row.reason}" if row and row.reason else " in this run"
        return _Side(None, reason=NOT_MEASURED + why)
    if row.low is None:
        return _Side(row.value)
    return _Side(row.value, (row.low, math.inf if row.high is None else row.high))


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
