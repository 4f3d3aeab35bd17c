"""What a model gives of trained records beyond what it gives of others like them, as rows."""

from collections.abc import Iterator, Mapping, Sequence

from fedaudit.api import (
    BEYOND_HELD_OUT,
    COMPLETION_DETECTABLE,
    COMPLETION_LEVEL,
    COMPLETION_MARGIN,
    COMPLETION_POWER,
    Measurement,
)

from .gain_difference import Difference, RecordGain, detectable, difference

NO_HELD_OUT = "there are no held-out records to compare with: name some with --held-out"
NO_TASK = "no held-out pair is of one of their tasks"


def rows(
    plugin: str,
    gains: Sequence[RecordGain],
    controls: Sequence[RecordGain] | None,
    scope: Mapping[str, object],
    *,
    seed: int,
) -> Iterator[Measurement]:
    """Yield by how much `gains` are beyond `controls`, the p-value, and which leak would be seen.

    Yields one row with the reason where that is not known.
    """
    row_scope = {"source": BEYOND_HELD_OUT, **scope}
    estimate = (
        difference(gains, controls, seed=seed, margin=COMPLETION_MARGIN) if controls else None
    )
    if estimate is None:
        reason = NO_HELD_OUT if controls is None else NO_TASK
        yield _row(plugin, "rouge_l", None, row_scope, reason=reason)
        return
    yield _row(
        plugin,
        "rouge_l",
        estimate.value,
        row_scope,
        low=estimate.low,
        high=estimate.high,
        n=estimate.n[0],
    )
    test = {
        **row_scope,
        "test": "permutation",
        "groups": estimate.clusters[0],
        "beside": estimate.clusters[1],
    }
    yield _row(plugin, "p_value", estimate.p, test, n=estimate.n[0])
    yield _detectable_row(plugin, estimate, row_scope)


def _detectable_row(
    plugin: str, estimate: Difference, row_scope: Mapping[str, object]
) -> Measurement:
    least = detectable(
        estimate, level=COMPLETION_LEVEL, power=COMPLETION_POWER, margin=COMPLETION_MARGIN
    )
    groups = "{:,} groups of records against {:,} held-out ones".format(*estimate.clusters)
    reason = "" if least is not None else f"{groups} are too few for a test at {COMPLETION_LEVEL}"
    scope = {
        **row_scope,
        "level": COMPLETION_LEVEL,
        "power": COMPLETION_POWER,
        "wanted": COMPLETION_DETECTABLE,
    }
    return _row(plugin, "detectable_difference", least, scope, n=estimate.n[0], reason=reason)


def _row(
    plugin: str,
    metric: str,
    value: float | None,
    scope: Mapping[str, object],
    *,
    low: float | None = None,
    high: float | None = None,
    n: int | None = None,
    reason: str = "",
) -> Measurement:
    return Measurement(
        kind="extraction",
        plugin=plugin,
        metric=metric,
        value=value,
        low=low,
        high=high,
        n=n,
        reason=reason,
        scope=scope,
    )
