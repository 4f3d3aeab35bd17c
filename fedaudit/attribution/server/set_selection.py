"""Drawing what a round is asked for, by either protocol."""

from collections.abc import Callable, Mapping, Sequence

from fedaudit.api.errors import InputError, UsageError
from fedaudit.attribution.server import defaults, shared_defaults
from fedaudit.attribution.server.defaults import ProtocolSettings
from fedaudit.attribution.server.round_designs import SHARED, PairDesign, RoundDesign, SharedDesign
from fedaudit.federation.manifest import Manifest
from fedaudit.metrics.attribution import shared_rule, shared_sets, subset_design
from fedaudit.metrics.attribution.exposure import exposure
from fedaudit.metrics.attribution.shared_rule import SharedSetsRule

Weights = Mapping[str, float]
Kind = tuple[int, bool, float]
"""A round's participants, whether everybody's sum is its own, the ratio of weights in sums."""


def kinds(
    found: Manifest, numbers: Sequence[int], own: Weights, shares: Weights | None
) -> dict[int, Kind]:
    """Return what decides on a round's shared sets.

    `own` are the weights in the rounds' own sums over those in the sums that are asked for,
    `shares`; None where these were stored, whatever the clients weigh.
    """
    return {number: _kind(found, number, own, shares) for number in numbers}


def _kind(found: Manifest, number: int, own: Weights, shares: Weights | None) -> Kind:
    who = found.rounds[number].participants
    if not who:
        raise InputError(f"Nobody took part in round {number} of the federation.")
    by = {name: 1.0 if shares is None else shares[name] for name in who}
    return len(who), shared_rule.known(own[name] for name in who), shared_defaults.ratio(by)


def nearest(
    protocol: str, wanted: ProtocolSettings, found: Manifest, each: Mapping[int, Kind]
) -> ProtocolSettings:
    """Return the nearest settings to those wanted that every round allows."""
    counts = [len(found.rounds[number].participants) for number in each]
    if protocol != SHARED:
        return defaults.nearest_settings(wanted, counts)
    return shared_defaults.nearest(wanted, each)


def pairs(
    found: Manifest,
    numbers: Sequence[int],
    settings: ProtocolSettings,
    seed: int,
    shares: Weights | None,
) -> dict[int, RoundDesign]:
    """Return pairs of sets for every participant of the rounds, in the order of the clients."""

    def drawn(number: int) -> PairDesign:
        who = found.rounds[number].participants
        own = [
            subset_design.draw(
                who,
                target,
                others=settings.others,
                queries=settings.pairs,
                threshold=settings.threshold,
                seed=seed,
                number=number,
                limit=settings.limit,
                weights=shares,
            )
            for target in _in_order(found, number)
        ]
        tries = sum(one.tries for one in own)
        return PairDesign(tuple(one.design for one in own), settings.limit, len(who), tries)

    return {number: _told(number, drawn) for number in numbers}


def shared(
    found: Manifest, rules: Mapping[int, SharedSetsRule], seed: int, own: Weights
) -> dict[int, RoundDesign]:
    """Return the sets that each round's estimates share.

    Raises UsageError where a client's update follows from them and the round's own sum: drawing
    again for that would make the law depend on who is who.
    """

    def drawn(number: int) -> SharedDesign:
        who, rule = found.rounds[number].participants, rules[number]
        sets = shared_sets.draw_by(rule, who, seed=seed, number=number)
        weights = {name: own[name] for name in who}
        known = exposure(sets.sets, rule.threshold, weights)
        if known.determined:
            raise UsageError(
                f"With the round's own sum, whose weights are the clients', {rule.sets} shared "
                f"sets give away the update of {min(known.determined)}: ask for fewer (--sets)."
            )
        return SharedDesign(tuple(_in_order(found, number)), sets, rule)

    return {number: _told(number, drawn) for number in rules}


def _told(number: int, drawn: Callable[[int], RoundDesign]) -> RoundDesign:
    try:
        return drawn(number)
    except UsageError as error:
        raise UsageError(f"Round {number}: {error}") from None


def _in_order(found: Manifest, number: int) -> list[str]:
    order = [client.id for client in found.clients].index
    return sorted(found.rounds[number].participants, key=order)
