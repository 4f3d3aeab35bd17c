"""A paper's claims as comparisons of measurements, without evaluating code."""

from collections.abc import Mapping, Sequence

from fedaudit.profile import Profile, Published, Select, Statement
from fedaudit.records import Claim, Measurement

Measured = Mapping[str, Sequence[Measurement]]
"""Variant -> its measurements."""

_COMPARE = {
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
}


def checked(profile: Profile, measured: Measured) -> list[Claim]:
    """Return every claim of the profile; one whose variant did not run does not hold or fail."""
    return [_claim(statement, measured) for statement in profile.claims]


def _claim(statement: Statement, measured: Measured) -> Claim:
    left, right = _side(statement.left, measured), _side(statement.right, measured)
    holds = None
    detail = "not measured in this run"
    if left is not None and right is not None:
        bound = statement.factor * right + statement.margin
        holds = _COMPARE[statement.compare](left, bound)
        detail = f"{left:.4g} {statement.compare} {bound:.4g}"
    return Claim(
        id=statement.id,
        source=statement.source,
        statement=statement.statement,
        holds=holds,
        detail=detail,
    )


def _side(side: Select | float, measured: Measured) -> float | None:
    """Return the number that one side of a claim means, None when it was not measured."""
    if not isinstance(side, Select):
        return float(side)
    row = find(measured.get(side.variant, ()), side.metric, side.scope, side.plugin)
    return None if row is None else getattr(row, side.number)


def find(
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


def beside(
    figures: Sequence[Published], measured: Measured
) -> list[tuple[Published, float | None]]:
    """Return each published figure with ours; None where no variant measures it."""
    result: list[tuple[Published, float | None]] = []
    for figure in figures:
        row = find(measured.get(figure.variant, ()), figure.metric, figure.scope, figure.plugin)
        result.append((figure, row.value if row else None))
    return result
