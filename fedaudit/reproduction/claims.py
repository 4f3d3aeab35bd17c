"""A paper's claims as comparisons of measurements, without evaluating code."""

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


@dataclass(frozen=True, slots=True)
class _Side:
    """The value of one side of a claim; None, with the reason, where it was not measured."""

    number: float | None
    interval: tuple[float, float] | None = None
    """The interval of the value, if any; an end of an interval has none."""
    reason: str = ""
    exact: bool = False
    """Whether it is a number of the profile, and not measured."""

    def scaled(self, factor: float, margin: float) -> "_Side":
        """Return factor * side + margin."""
        if self.number is None:
            return self
        bounds = sorted(factor * end + margin for end in self.interval or ())
        interval = (bounds[0], bounds[1]) if bounds else None
        return _Side(factor * self.number + margin, interval)


def check_claims(profile: Profile, measured: Measured) -> list[Claim]:
    """Return every claim of the profile; one whose variant did not run neither holds nor fails.

    Nor does one of two measured values with intervals that overlap, unless it says `apart = false`.
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
    if statement.open_where_they_overlap and bound.interval is None and right.exact:
        bound = replace(bound, interval=(bound.number, bound.number))
    if not _overlap(left, bound):
        return holds, detail
    why = CONTAINMENT if right.exact else OVERLAP
    return None if statement.open_where_they_overlap else holds, f"{detail}; {why}"


def _overlap(left: _Side, right: _Side) -> bool:
    if left.interval is None or right.interval is None:
        return False
    return left.interval[0] <= right.interval[1] and right.interval[0] <= left.interval[1]


def _side(side: Select | float, measured: Measured) -> _Side:
    """Return the number that one side of a claim means, and its interval if it is a value."""
    if not isinstance(side, Select):
        return _Side(float(side), exact=True)
    row = find_row(measured.get(side.variant, ()), side.metric, side.scope, side.plugin)
    number: float | None = None if row is None else getattr(row, side.number)
    if row is None or number is None:
        why = f": {row.reason}" if row and row.reason else " in this run"
        return _Side(None, reason=NOT_MEASURED + why)
    if side.number != "value" or row.low is None or row.high is None:
        return _Side(number)
    return _Side(number, (row.low, row.high))


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
