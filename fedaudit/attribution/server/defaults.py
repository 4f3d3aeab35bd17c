"""The design of a server that named none, or only parts of one: the nearest that can be."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedaudit.api.errors import UsageError
from fedaudit.metrics.attribution import subset_design

LIMIT = 0.4
"""The largest share of another client's update in an estimate, where nobody says one."""

FEWEST = 2
"""No sum is over fewer clients than this, unless somebody names a lower threshold."""

DRAWS, ENOUGH = 4000, 0.005
"""A limit can be where more than this share of as many draws keeps it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolSettings:
    """A design: m, K, the limit and the threshold; and which of them somebody named."""

    others: int
    pairs: int
    limit: float
    threshold: int
    sets: int = 0
    """Q of shared sets, which have neither m nor K; 0 where nobody said one."""
    named: frozenset[str] = frozenset()
    """Those that stay as they are."""
    told: tuple[str, ...] = ()
    """What was put in the place of something else."""


def nearest_settings(wanted: ProtocolSettings, counts: Sequence[int]) -> ProtocolSettings:
    """Return the nearest settings that rounds of so many participants allow.

    What was named stays; if it cannot be, drawing a design refuses it. Raises UsageError where
    only sums over single clients could be.
    """
    if min(counts) < 3:  # drawing refuses that in any case
        return wanted
    return _limited(_threshold(_others(wanted, min(counts))), counts)


def _others(wanted: ProtocolSettings, fewest: int) -> ProtocolSettings:
    """Return the settings with as many others in a set as all rounds allow."""
    if "others" in wanted.named:
        return wanted
    least = wanted.threshold if "threshold" in wanted.named else FEWEST
    most = fewest - 2
    if most < least:
        if "threshold" in wanted.named:
            raise UsageError(
                f"A round has {fewest} clients, and a set at most {most} others (m), below the "
                f"threshold of secure aggregation, {least}."
            )
        raise UsageError(
            f"A round of {fewest} clients leaves sets of one other client, whose sum is its "
            "update: --others 1 --threshold 1 asks for that."
        )
    chosen = min(max(wanted.others, least), most)
    if chosen == wanted.others:
        return wanted
    why = f"a round has {fewest} clients" if chosen == most else f"the threshold is {least}"
    told = f"{chosen} others in a set (m) in place of {wanted.others}: {why}"
    return replace(wanted, others=chosen, told=(*wanted.told, told))


def _threshold(wanted: ProtocolSettings) -> ProtocolSettings:
    """Return the settings with a threshold that their sets reach.

    It is lowered for sets that nobody named alone: smaller ones than it are a mistake, or need a
    threshold of whoever wants them.
    """
    if wanted.named & {"others", "threshold"} or wanted.others >= wanted.threshold:
        return wanted
    told = (
        f"a threshold of {wanted.others} clients in place of {wanted.threshold}: a set has "
        f"{wanted.others} others"
    )
    return replace(wanted, threshold=wanted.others, told=(*wanted.told, told))


def _limited(wanted: ProtocolSettings, counts: Sequence[int]) -> ProtocolSettings:
    """Return the settings with the lowest limit, from theirs on, that designs keep."""
    if "limit" in wanted.named:
        return wanted
    limit = max(_limit(count, wanted) for count in set(counts))
    if limit == wanted.limit:
        return wanted
    told = (
        f"a limit of {limit:g} on another client's share in place of {wanted.limit:g}: with "
        f"{wanted.pairs} pairs of sums too few designs keep a lower one"
    )
    return replace(wanted, limit=limit, told=(*wanted.told, told))


def _limit(count: int, wanted: ProtocolSettings) -> float:
    others, pairs = wanted.others, wanted.pairs
    try:
        subset_design.check(count, others, pairs, wanted.threshold)
    except UsageError:  # drawing says it, and of which round
        return wanted.limit
    steps = (step / pairs for step in range(1, pairs) if step / pairs > wanted.limit)
    return next(
        (
            limit
            for limit in (wanted.limit, *steps)
            if subset_design.acceptance_rate(count, others, pairs, limit=limit, draws=DRAWS)
            > ENOUGH
        ),
        1.0,
    )
