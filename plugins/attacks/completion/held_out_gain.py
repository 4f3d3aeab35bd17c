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
NO_TASK = "no held-out pair has a task of theirs"


def rows(
    plugin: str,
    gains: Sequence[RecordGain],
    others: Sequence[RecordGain] | None,
    scope: Mapping[str, object],
    *,
    seed: int,
) -> Iterator[Measurement]:
    """Yield by how much `gains` are beyond `others`, the p-value, and which leak would be seen.

    One row that says why, where that is not known.
    """
    at = {"source": BEYOND_HELD_OUT, **scope}
    found = difference(gains, others, seed=seed, margin=COMPLETION_MARGIN) if others else None
    if found is None:
        reason = NO_HELD_OUT if others is None else NO_TASK
        yield _row(plugin, "rouge_l", None, at, reason=reason)
        return
    yield _row(plugin, "rouge_l", found.value, at, low=found.low, high=found.high, n=found.n[0])
    test = {**at, "test": "permutation", "groups": found.clusters[0], "beside": found.clusters[1]}
    yield _row(plugin, "p_value", found.p, test, n=found.n[0])
    yield _seen(plugin, found, at)


def _seen(plugin: str, found: Difference, at: Mapping[str, object]) -> Measurement:
    least = detectable(
        found, level=COMPLETION_LEVEL, power=COMPLETION_POWER, margin=COMPLETION_MARGIN
    )
    groups = "{:,} groups of records against {:,} held-out ones".format(*found.clusters)
    reason = "" if least is not None else f"{groups} are too few for a test at {COMPLETION_LEVEL}"
    scope = {
        **at,
        "level": COMPLETION_LEVEL,
        "power": COMPLETION_POWER,
        "wanted": COMPLETION_DETECTABLE,
    }
    return _row(plugin, "detectable_difference", least, scope, n=found.n[0], reason=reason)


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
