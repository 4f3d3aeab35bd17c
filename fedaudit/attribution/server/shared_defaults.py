"""The rules that a federation's shared sets are drawn by: as named, or the nearest that can be."""

import math
from collections.abc import Mapping
from dataclasses import replace

from fedaudit.api.errors import UsageError
from fedaudit.attribution.server.defaults import ProtocolSettings
from fedaudit.metrics.attribution import shared_law, shared_rule
from fedaudit.metrics.attribution.shared_rule import SharedSetsRule

DIGITS = 4
"""Decimals to which a ratio of weights is rounded, upwards: the owner gets it."""


def ratio(weights: Mapping[str, float]) -> float:
    """Return the largest weight over the smallest, rounded upwards."""
    exact = max(weights.values()) / min(weights.values())
    if not math.isfinite(exact):
        raise UsageError("The weights of the clients are too far apart for sums by size.")
    return float(math.ceil(exact * 10**DIGITS - 1e-6) / 10**DIGITS)


def rules(
    settings: ProtocolSettings, kinds: Mapping[int, tuple[int, bool, float]]
) -> dict[int, SharedSetsRule]:
    """Return the rule of each round, of its participants, everybody's sum and ratio of weights."""
    return {
        number: SharedSetsRule(
            participants=count,
            queries=settings.sets or shared_rule.half(count, whole=whole),
            threshold=settings.threshold,
            limit=settings.limit,
            whole=whole,
            ratio=by,
        )
        for number, (count, whole, by) in kinds.items()
    }


def nearest(
    wanted: ProtocolSettings, kinds: Mapping[int, tuple[int, bool, float]]
) -> ProtocolSettings:
    """Return the nearest settings by which every round's sets can be drawn.

    What was named stays; if it cannot be, drawing refuses it.
    """
    return _limited(_threshold(wanted, min(count for count, _, _ in kinds.values())), kinds)


def _threshold(wanted: ProtocolSettings, fewest: int) -> ProtocolSettings:
    half = fewest // 2
    if "threshold" in wanted.named or half < 2 or wanted.threshold <= half:
        return wanted
    told = f"a threshold of {half} clients in place of {wanted.threshold}: half of {fewest} clients"
    return replace(wanted, threshold=half, told=(*wanted.told, f"{told} are {half}"))


def _limited(
    wanted: ProtocolSettings, kinds: Mapping[int, tuple[int, bool, float]]
) -> ProtocolSettings:
    """Return the settings with the lowest limit, from theirs on, that all rounds' sets keep."""
    if "limit" in wanted.named:
        return wanted
    limit = max(_limit(rule) for rule in set(rules(wanted, kinds).values()))
    if limit == wanted.limit:
        return wanted
    told = (
        f"a limit of {limit:g} on another client's share in place of {wanted.limit:g}: shared sets "
        "keep no lower one"
    )
    return replace(wanted, limit=limit, told=(*wanted.told, told))


def _limit(rule: SharedSetsRule) -> float:
    try:
        rule.check()
    except UsageError:  # drawing says it, and of which round
        return rule.limit
    return shared_law.lowest_limit(rule) or rule.limit
