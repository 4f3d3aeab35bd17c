"""The settings of a server that named none, or only some: the nearest possible ones."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fedaudit.api.errors import UsageError
from fedaudit.attribution.server.round_designs import SHARED
from fedaudit.metrics.attribution import shared_rule, shared_sets_distribution, subset_design
from fedaudit.metrics.attribution.shared_rule import SharedSetsRule

LIMIT = 0.4
"""The default limit: the largest share of another client's update in an estimate."""

FEWEST = 2
"""The default threshold: no sum is over fewer clients, unless a lower threshold is named."""

DIGITS = 4
"""Decimals to which a ratio of weights is rounded upwards, because the owner gets to see it."""

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


Kind = tuple[int, bool, float]
"""A round's number of participants, whether the sum over all is the round's own, and the ratio of
the largest to the smallest weight in sums."""


def nearest(
    protocol: str, settings: ProtocolSettings, kinds: Mapping[int, Kind]
) -> ProtocolSettings:
    """Return the nearest settings that every round allows.

    Named settings are kept; if they are impossible, drawing a design refuses them. Raises
    UsageError if only sums over single clients would be possible.
    """
    counts = {count for count, _, _ in kinds.values()}
    if protocol == SHARED:
        settings = _shared_threshold(settings, min(counts))
        shared_rules = set(rules(settings, kinds).values())
        return _default_limit(
            settings, map(_shared_limit, shared_rules), "shared sets keep no lower one"
        )
    if min(counts) < 3:  # drawing refuses so few participants in any case
        return settings
    settings = _pairs_threshold(_default_others(settings, min(counts)))
    return _default_limit(
        settings,
        (_pairs_limit(count, settings) for count in counts),
        f"with {settings.pairs} pairs of sums too few designs keep a lower one",
    )


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


def _pairs_threshold(settings: ProtocolSettings) -> ProtocolSettings:
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


def _shared_threshold(settings: ProtocolSettings, fewest: int) -> ProtocolSettings:
    half = fewest // 2
    if "threshold" in settings.explicit or half < 2 or settings.threshold <= half:
        return settings
    note = (
        f"a threshold of {half} clients in place of {settings.threshold}: half of {fewest} clients "
        f"are {half}"
    )
    return replace(settings, threshold=half, notes=(*settings.notes, note))


def _default_limit(
    settings: ProtocolSettings, limits: Iterable[float], why: str
) -> ProtocolSettings:
    """Return the settings with the largest of the `limits` that each kind of round can keep."""
    if "limit" in settings.explicit or (limit := max(limits)) == settings.limit:
        return settings
    note = f"a limit of {limit:g} on another client's share in place of {settings.limit:g}: {why}"
    return replace(settings, limit=limit, notes=(*settings.notes, note))


def _pairs_limit(count: int, settings: ProtocolSettings) -> float:
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


def _shared_limit(rule: SharedSetsRule) -> float:
    try:
        rule.check()
    except UsageError:  # drawing reports it, with the round
        return rule.limit
    return shared_sets_distribution.lowest_limit(rule) or rule.limit


def ratio(weights: Mapping[str, float]) -> float:
    """Return the largest weight over the smallest, rounded upwards."""
    exact = max(weights.values()) / min(weights.values())
    if not math.isfinite(exact):
        raise UsageError("The weights of the clients are too far apart for sums by size.")
    return float(math.ceil(exact * 10**DIGITS - 1e-6) / 10**DIGITS)


def rules(settings: ProtocolSettings, kinds: Mapping[int, Kind]) -> dict[int, SharedSetsRule]:
    """Return each round's rule, from its number of participants, own sum and ratio of weights."""
    return {
        number: SharedSetsRule(
            participants=count,
            queries=settings.sets or shared_rule.default_queries(count, total_known=total_known),
            threshold=settings.threshold,
            limit=settings.limit,
            whole=total_known,
            ratio=weight_ratio,
        )
        for number, (count, total_known, weight_ratio) in kinds.items()
    }
