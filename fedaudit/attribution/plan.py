"""What a server asks secure aggregation for: designs for every participant of every round."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fedaudit import registry
from fedaudit.errors import InputError, UsageError
from fedaudit.federation import manifest
from fedaudit.federation.folder import Federation
from fedaudit.federation.manifest import Chosen, Manifest
from fedaudit.interfaces import Aggregator
from fedaudit.metrics import subsets
from fedaudit.metrics.exposure import Exposure, exposure
from fedaudit.metrics.subsets import Design, Drawn
from fedaudit.secure import SecureAggregation

Members = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the server will ask for: by round, a design for every participant."""

    federation: Federation
    aggregator: Aggregator
    secure: SecureAggregation
    others: int
    pairs: int
    limit: float
    seed: int
    designs: Mapping[int, Sequence[Design]]
    tries: int
    """Designs that were drawn, those that were rejected included."""

    @property
    def queries(self) -> int:
        """Sums that the estimates are made of: 2 K for every estimate."""
        return sum(2 * self.pairs * len(own) for own in self.designs.values())

    def sets(self, number: int) -> list[Members]:
        """Return a round's distinct sets, the round's own sum last: the server knows it too."""
        asked = (s for design in self.designs[number] for s in (*design.include, *design.exclude))
        everybody = tuple(sorted(self.federation.manifest.rounds[number].participants))
        return list(dict.fromkeys((*asked, everybody)))

    def exposures(self, rounds: Sequence[int] | None = None) -> dict[int, Exposure]:
        """Return what each round's series of sums gives away; of all rounds without `rounds`."""
        chosen = self.designs if rounds is None else rounds
        return {n: exposure(self.sets(n), self.secure.threshold) for n in chosen}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the server is asked to do; None and empty take what the federation was run with."""

    rounds: Sequence[int] = ()
    others: int | None = None
    pairs: int | None = None
    limit: float | None = None
    threshold: int | None = None
    secure: str = ""
    seed: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def plan(federation: Federation, wish: Wish, *, secret: bool = False) -> Plan:
    """Draw the designs; nothing is asked yet.

    `secret` draws them by a seed that nobody can guess, where neither the wish nor the federation
    has one: whoever gets the estimates must not know the sets.
    Raises UsageError for a round that is not there or a design that cannot be, InputError for a
    federation without updates or sums.
    """
    said = manifest.queries(federation.manifest)
    others = said.others if wish.others is None else wish.others
    pairs = said.pairs if wish.pairs is None else wish.pairs
    limit = said.limit if wish.limit is None else wish.limit
    seed = wish.seed if wish.seed is not None else said.seed
    if seed is None:
        seed = secrets.randbits(63) if secret else 0
    secure = _secure(manifest.chosen(federation.manifest, "secure_aggregation"), wish)
    chosen = _chosen(federation.manifest, wish.rounds)
    designs: dict[int, list[Design]] = {}
    tries = 0
    for number in chosen:
        draw = partial(
            subsets.draw,
            others=others,
            queries=pairs,
            threshold=secure.threshold,
            seed=seed,
            limit=limit,
        )
        found = _drawn(federation.manifest, number, draw)
        designs[number] = [one.design for one in found]
        tries += sum(one.tries for one in found)
    rule = manifest.chosen(federation.manifest, "aggregation")
    assert rule is not None  # the manifest has one
    return Plan(
        federation=federation,
        aggregator=registry.create("aggregation", rule.name, rule.options),
        secure=secure,
        others=others,
        pairs=pairs,
        limit=limit,
        seed=seed,
        designs=designs,
        tries=tries,
    )


def _drawn(found: Manifest, number: int, draw: Callable[..., Drawn]) -> list[Drawn]:
    """Return a design for every participant of a round, in the order of the clients."""
    who = found.rounds[number].participants
    targets = sorted(who, key=_client_order(found))
    try:
        return [draw(who, target, number=number) for target in targets]
    except UsageError as error:
        raise UsageError(f"Round {number}: {error}") from None


def _client_order(found: Manifest) -> Callable[[str], int]:
    return [client.id for client in found.clients].index


def _secure(own: Chosen | None, wish: Wish) -> SecureAggregation:
    """Return the secure aggregation that answers: the federation's own, or one for its updates."""
    name = wish.secure or (own.name if own else "") or "ideal"
    options = dict(own.options) if own and name == own.name else {}
    secure: SecureAggregation = registry.create(
        "secure aggregation", name, {**options, **wish.options}
    )
    if wish.threshold is None:
        return secure
    if "threshold" in options and wish.threshold < secure.threshold:
        raise UsageError(
            f"The federation's secure aggregation gives no sum over fewer than "
            f"{secure.threshold} clients; a threshold of {wish.threshold} is below that."
        )
    options["threshold"] = wish.threshold
    lower: SecureAggregation = registry.create(
        "secure aggregation", name, {**options, **wish.options}
    )
    return lower


def _chosen(found: Manifest, wanted: Sequence[int]) -> list[int]:
    last = len(found.rounds) - 1
    if not last:
        raise InputError("The federation has no finished round: there is no update to attribute.")
    for number in wanted:
        if not 1 <= number <= last:
            raise UsageError(f"The federation has rounds 1 to {last}, no round {number}.")
    if repeated := sorted({number for number in wanted if list(wanted).count(number) > 1}):
        raise UsageError(f"Round {repeated[0]} is named twice.")
    return sorted(wanted) or list(range(1, last + 1))


def weights(found: Manifest) -> dict[str, float]:
    """Return what each client's update is multiplied by in sums: 1 where all weigh the same.

    Raises InputError for a weight that is not positive: a sum tells nothing of such a client.
    """
    if light := [client.id for client in found.clients if client.weight <= 0]:
        raise InputError(f"{light[0]} has no positive weight: no sum tells anything of its update.")
    mean = sum(client.weight for client in found.clients) / len(found.clients)
    return {client.id: client.weight / mean for client in found.clients}
