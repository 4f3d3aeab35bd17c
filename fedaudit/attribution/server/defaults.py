"""The settings of a server that named none, or only some: the nearest possible ones."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedaudit.api.errors import UsageError
from fedaudit.metrics.attribution import subset_design

LIMIT = 0.4
"""The default limit: the largest share of another client's update in an estimate."""

FEWEST = 2
"""The default threshold: no sum is over fewer clients, unless a lower threshold is named."""

DRAWS, ENOUGH = 4000, 0.005
"""A limit is possible if more than the share ENOUGH of DRAWS random designs keeps it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolSettings:
    """The settings of a design: m, K, limit and threshold, and which of them were named."""

    others: int
    pairs: int
    limit: float
    threshold: int
    sets: int = 0
    """Q of shared sets, which have neither m nor K; 0 where no one said one."""
    explicit: frozenset[str] = frozenset()
    """The settings that someone named: they stay as they are."""
    notes: tuple[str, ...] = ()
    """Notes on the settings that replaced others."""


def nearest_settings(settings: ProtocolSettings, counts: Sequence[int]) -> ProtocolSettings:
    """Return the nearest settings that rounds with these `counts` of participants allow.

    Named settings are kept; if they are impossible, drawing a design refuses them. Raises
    UsageError if only sums over single clients would be possible.
    """
    if min(counts) < 3:  # drawing refuses so few participants in any case
        return settings
    return _default_limit(_threshold(_default_others(settings, min(counts))), counts)


def _default_others(settings: ProtocolSettings, fewest: int) -> ProtocolSettings:
    """Return the settings with the number of other clients in a set that all rounds allow."""
    if "others" in settings.explicit:
        return settings
    least = settings.threshold if "threshold" in settings.explicit else FEWEST
    most = fewest - 2
    if most < least:
        if "threshold" in settings.explicit:
            raise UsageError(
                f"A round has {fewest} clients, and a set at most {most} others (m), below the "
                f"threshold of secure aggregation, {least}."
            )
        raise UsageError(
            f"A round of {fewest} clients leaves sets of one other client, whose sum is its "
            "update: attribute --others 1 --threshold 1 asks for that."
        )
    chosen = min(max(settings.others, least), most)
    if chosen == settings.others:
        return settings
    why = f"a round has {fewest} clients" if chosen == most else f"the threshold is {least}"
    note = f"{chosen} others in a set (m) in place of {settings.others}: {why}"
    return replace(settings, others=chosen, notes=(*settings.notes, note))


def _threshold(settings: ProtocolSettings) -> ProtocolSettings:
    """Return the settings with a threshold that their sets reach.

    The threshold is lowered only if neither sets nor threshold were named: named sets smaller than
    the threshold are a mistake, or need a named threshold.
    """
    if settings.explicit & {"others", "threshold"} or settings.others >= settings.threshold:
        return settings
    note = (
        f"a threshold of {settings.others} clients in place of {settings.threshold}: a set has "
        f"{settings.others} others"
    )
    return replace(settings, threshold=settings.others, notes=(*settings.notes, note))


def _default_limit(settings: ProtocolSettings, counts: Sequence[int]) -> ProtocolSettings:
    """Return the settings with the lowest limit, at least their own, that designs can keep."""
    if "limit" in settings.explicit:
        return settings
    limit = max(_limit(count, settings) for count in set(counts))
    if limit == settings.limit:
        return settings
    note = (
        f"a limit of {limit:g} on another client's share in place of {settings.limit:g}: with "
        f"{settings.pairs} pairs of sums too few designs keep a lower one"
    )
    return replace(settings, limit=limit, notes=(*settings.notes, note))


def _limit(count: int, settings: ProtocolSettings) -> float:
    others, pairs = settings.others, settings.pairs
    try:
        subset_design.check(count, others, pairs, settings.threshold)
    except UsageError:  # drawing reports it, with the round
        return settings.limit
    steps = (step / pairs for step in range(1, pairs) if step / pairs > settings.limit)
    return next(
        (
            limit
            for limit in (settings.limit, *steps)
            if subset_design.acceptance_rate(count, others, pairs, limit=limit, draws=DRAWS)
            > ENOUGH
        ),
        1.0,
    )
