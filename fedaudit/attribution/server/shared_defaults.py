"""The rules for drawing a federation's shared sets: as named, or the nearest possible ones."""

import math
from collections.abc import Mapping
from dataclasses import replace

from fedaudit.api.errors import UsageError
from fedaudit.attribution.server.defaults import ProtocolSettings
from fedaudit.metrics.attribution import shared_rule, shared_sets_distribution
from fedaudit.metrics.attribution.shared_rule import SharedSetsRule

DIGITS = 4
"""Decimals to which a ratio of weights is rounded upwards, because the owner gets to see it."""


def ratio(weights: Mapping[str, float]) -> float:
    """Return the largest weight over the smallest, rounded upwards."""
    exact = max(weights.values()) / min(weights.values())
    if not math.isfinite(exact):
        raise UsageError("The weights of the clients are too far apart for sums by size.")
    return float(math.ceil(exact * 10**DIGITS - 1e-6) / 10**DIGITS)


def rules(
    settings: ProtocolSettings, kinds: Mapping[int, tuple[int, bool, float]]
) -> dict[int, SharedSetsRule]:
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


def nearest(
    settings: ProtocolSettings, kinds: Mapping[int, tuple[int, bool, float]]
) -> ProtocolSettings:
    """Return the nearest settings by which every round's sets can be drawn.

    Named settings are kept; if they are impossible, drawing refuses them.
    """
    return _default_limit(_threshold(settings, min(count for count, _, _ in kinds.values())), kinds)


def _threshold(settings: ProtocolSettings, fewest: int) -> ProtocolSettings:
    half = fewest // 2
    if "threshold" in settings.explicit or half < 2 or settings.threshold <= half:
        return settings
    note = (
        f"a threshold of {half} clients in place of {settings.threshold}: half of {fewest} clients"
    )
    return replace(settings, threshold=half, notes=(*settings.notes, f"{note} are {half}"))


def _default_limit(
    settings: ProtocolSettings, kinds: Mapping[int, tuple[int, bool, float]]
) -> ProtocolSettings:
    """Return the settings with the lowest limit, at least their own, that all rounds' sets keep."""
    if "limit" in settings.explicit:
        return settings
    limit = max(_limit(rule) for rule in set(rules(settings, kinds).values()))
    if limit == settings.limit:
        return settings
    note = (
        f"a limit of {limit:g} on another client's share in place of {settings.limit:g}: shared "
        "sets keep no lower one"
    )
    return replace(settings, limit=limit, notes=(*settings.notes, note))


def _limit(rule: SharedSetsRule) -> float:
    try:
        rule.check()
    except UsageError:  # drawing reports it, with the round
        return rule.limit
    return shared_sets_distribution.lowest_limit(rule) or rule.limit
