"""Draws the sets of clients whose sums a round asks for, by either protocol."""

from collections.abc import Callable, Mapping, Sequence

from fedaudit.api.errors import InputError, UsageError
from fedaudit.attribution.server import defaults
from fedaudit.attribution.server.defaults import Kind, ProtocolSettings
from fedaudit.attribution.server.round_designs import PairDesign, RoundDesign, SharedDesign
from fedaudit.federation.manifest import Manifest
from fedaudit.metrics.attribution import shared_rule, shared_sets, subset_design
from fedaudit.metrics.attribution.shared_rule import SharedSetsRule
from fedaudit.metrics.attribution.sum_leakage import InnerProducts, sum_leakage

Weights = Mapping[str, float]
ROUNDING = 1e-9


def kinds(
    manifest: Manifest, numbers: Sequence[int], relative_weights: Weights, shares: Weights | None
) -> dict[int, Kind]:
    """Return the properties that determine how each round's shared sets are drawn.

    `shares` are the weights in the sums that are asked for, or None if those sums were stored,
    whose sets do not depend on weights. `relative_weights` are the weights in the rounds' own sums
    divided by `shares`.
    """
    return {number: _kind(manifest, number, relative_weights, shares) for number in numbers}


def _kind(
    manifest: Manifest, number: int, relative_weights: Weights, shares: Weights | None
) -> Kind:
    participants = manifest.rounds[number].participants
    if not participants:
        raise InputError(f"No client took part in round {number} of the federation.")
    weights = {name: 1.0 if shares is None else shares[name] for name in participants}
    return (
        len(participants),
        shared_rule.has_equal_weights(relative_weights[name] for name in participants),
        defaults.ratio(weights),
    )


def pairs(
    manifest: Manifest,
    numbers: Sequence[int],
    settings: ProtocolSettings,
    seed: int,
    shares: Weights | None,
) -> dict[int, RoundDesign]:
    """Return pairs of sets for every participant of the rounds, in the order of the clients."""

    def draw_pairs(number: int) -> PairDesign:
        participants = manifest.rounds[number].participants
        designs = [
            subset_design.draw(
                participants,
                target,
                mask_size=settings.others,
                queries=settings.pairs,
                threshold=settings.threshold,
                seed=seed,
                number=number,
                limit=settings.limit,
                weights=shares,
            )
            for target in _in_order(manifest, number)
        ]
        return PairDesign(tuple(designs), settings.limit, len(participants))

    return {number: _draw_round(number, draw_pairs) for number in numbers}


class ExposureError(UsageError):
    """Shared sets, with the round's own sum, leave too little of an update hidden."""


def shared(
    manifest: Manifest,
    rules: Mapping[int, SharedSetsRule],
    seed: int,
    relative_weights: Weights,
    hidden: float,
    products: Mapping[int, InnerProducts],
) -> dict[int, RoundDesign]:
    """Return the sets that each round's estimates share.

    `products` are those of the rounds whose updates are stored, which the check is then about.
    Raises ExposureError if the sums over these sets and the round's own sum leave less than the
    share `hidden` of a client's update, in variance: drawing again in that case would make the
    distribution of the sets depend on the clients.
    """

    def draw_shared(number: int) -> SharedDesign:
        participants, rule = manifest.rounds[number].participants, rules[number]
        sets = shared_sets.draw(rule, participants, seed=seed, number=number)
        weights = {name: relative_weights[name] for name in participants}
        result = sum_leakage(sets.sets, rule.threshold, weights, products=products.get(number))
        client, left = result.least_hidden
        if left < hidden * (1 - ROUNDING) or (hidden and result.determined):
            raise ExposureError(
                f"With the round's own sum, whose weights are the clients', {rule.sets} shared "
                f"sets leave {left:.0%} of the variance of the update of {client} hidden, less "
                f"than {hidden:.0%} (--hidden): ask for fewer (--sets)."
            )
        return SharedDesign(tuple(_in_order(manifest, number)), sets, rule)

    return {number: _draw_round(number, draw_shared) for number in rules}


def _draw_round(number: int, draw: Callable[[int], RoundDesign]) -> RoundDesign:
    try:
        return draw(number)
    except UsageError as error:
        raise type(error)(f"Round {number}: {error}") from None


def _in_order(manifest: Manifest, number: int) -> list[str]:
    order = [client.id for client in manifest.clients].index
    return sorted(manifest.rounds[number].participants, key=order)
