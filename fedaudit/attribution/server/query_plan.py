"""What a server asks secure aggregation for: designs for every participant of every round."""

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from fedaudit.api.errors import InputError, UsageError, unknown_name_error
from fedaudit.api.plugin import Aggregator
from fedaudit.api.secure_aggregation import SecureAggregation
from fedaudit.attribution.server import defaults, masks, set_selection, shared_defaults
from fedaudit.attribution.server.defaults import ProtocolSettings
from fedaudit.attribution.server.round_designs import PAIRS, PROTOCOLS, SHARED, RoundDesign
from fedaudit.config import registry
from fedaudit.config.options import table_of
from fedaudit.federation import manifest
from fedaudit.federation.folder import Federation
from fedaudit.federation.manifest import ChosenPlugin, Manifest
from fedaudit.metrics.attribution.combinations import Members
from fedaudit.metrics.attribution.exposure import Exposure, exposure

WEIGHTINGS = ("equal", "size")
"""What a sum is of: updates as they are, or each times its client's weight over the mean."""
LEAST_SHARE = 1e-12
"""The least weight over the mean that is still added up: rounding takes what is below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SumPlan:
    """What the server will ask for: by round, what its participants' estimates are made of."""

    federation: Federation
    aggregator: Aggregator
    secure: SecureAggregation
    protocol: str = PAIRS
    others: int
    pairs: int
    limit: float
    seed: int
    designs: Mapping[int, RoundDesign]
    weighting: str = "equal"
    weights: Mapping[str, float]
    """What each client's update is multiplied by in the sums."""
    told: tuple[str, ...] = ()
    """Settings that took the place of others, which could not be."""

    @property
    def queries(self) -> int:
        """Sums that the estimates are made of."""
        return sum(own.asked for own in self.designs.values())

    def sets(self, number: int) -> list[Members]:
        """Return a round's distinct sets, the round's own sum last: the server knows it too."""
        everybody = tuple(sorted(self.federation.manifest.rounds[number].participants))
        return [own for own in self.designs[number].sets if own != everybody] + [everybody]

    def exposures(
        self, rounds: Sequence[int] | None = None, known: Sequence[str] = ()
    ) -> dict[int, Exposure]:
        """Return what each round's series of sums gives away; of all rounds without `rounds`.

        `known` are clients who tell the server their updates.
        """
        chosen = self.designs if rounds is None else rounds
        return {number: self._exposure(number, known) for number in chosen}

    def _exposure(self, number: int, known: Sequence[str]) -> Exposure:
        """Return a round's exposure; its own sum is always of weighted updates."""
        sets, threshold = self.sets(number), self.secure.threshold
        own = client_weights(self.federation.manifest)
        if self.weights == own:
            return exposure(sets, threshold, known=known)
        own = {who: own[who] for who in self.federation.manifest.rounds[number].participants}
        return exposure(sets[:-1], threshold, own, known=known)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolConfig:
    """What the server is asked to do; None and empty take what the federation was run with."""

    rounds: Sequence[int] = ()
    protocol: str = ""
    """How it asks, one of `designs.PROTOCOLS`."""
    others: int | None = None
    pairs: int | None = None
    sets: int | None = None
    """Q of shared sets."""
    limit: float | None = None
    threshold: int | None = None
    secure: str = ""
    weights: str = ""
    """What the sums are of, one of `WEIGHTINGS`."""
    seed: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def plan(federation: Federation, wish: ProtocolConfig, *, secret: bool = False) -> SumPlan:
    """Draw the designs; nothing is asked yet.

    `secret` draws them by a seed that nobody can guess, where neither the wish nor the federation
    has one: whoever gets the estimates must not know the sets.
    Raises UsageError for a round that is not there or a design that cannot be, InputError for a
    federation without updates or sums.
    """
    found = federation.manifest
    seed = wish.seed if wish.seed is not None else manifest.sum_queries(found).seed
    if seed is None:
        seed = secrets.randbits(63) if secret else 0
    protocol = _protocol(found, wish)
    weighting, own = _weighting(found, wish.weights), client_weights(found)
    shares = own if weighting == "size" else dict.fromkeys(own, 1.0)
    # Stored sums are of sets that were drawn whatever the clients weigh.
    asked = None if _stored(found) else shares
    secure = _secure(manifest.chosen_plugin(found, "secure_aggregation"), wish)
    chosen = _chosen(found, wish.rounds)
    relative = {who: own[who] / shares[who] for who in own}  # in the round's own sum
    each = set_selection.kinds(found, chosen, relative, asked)
    settings = _settings(found, wish, secure.threshold)
    if not _stored(found):
        settings = set_selection.nearest(protocol, settings, found, each)
    if protocol == SHARED:
        rules = shared_defaults.rules(settings, each)
        designs = set_selection.shared(found, rules, seed, relative)
    else:
        designs = set_selection.pairs(found, chosen, settings, seed, asked)
    rule = manifest.chosen_plugin(found, "aggregation")
    assert rule is not None  # the manifest has one
    planned = SumPlan(
        federation=federation,
        aggregator=registry.create("aggregation", rule.name, rule.options),
        secure=_with_threshold(secure, settings.threshold),
        protocol=protocol,
        others=0 if protocol == SHARED else settings.others,
        pairs=0 if protocol == SHARED else settings.pairs,
        limit=settings.limit,
        seed=seed,
        designs=designs,
        weighting=weighting,
        weights=shares,
        told=settings.told,
    )
    masks.check(designs, shares)
    return planned


def _protocol(found: Manifest, wish: ProtocolConfig) -> str:
    """Return how the server asks: as is wanted, or as the federation was run with.

    Raises UsageError for a protocol that nobody knows, for settings of the other one, and for
    another one than stored sums were asked for by.
    """
    said = manifest.sum_queries(found).protocol or PAIRS
    protocol = wish.protocol or said
    if protocol not in PROTOCOLS:
        raise unknown_name_error("protocol", protocol, PROTOCOLS)
    if _stored(found) and protocol != said:
        raise UsageError(
            f"The federation's sums were stored while it ran, by protocol {said!r}: they cannot be "
            f"had by {protocol!r}."
        )
    if protocol == SHARED and (wish.others is not None or wish.pairs is not None):
        raise UsageError(
            "--others and --queries are of pairs of sets: shared sets have half the clients, and "
            "--sets says how many there are."
        )
    if protocol == PAIRS and wish.sets is not None:
        raise UsageError("--sets is of shared sets: it needs --protocol shared.")
    return protocol


def _stored(found: Manifest) -> bool:
    """Return whether sums were stored while the federation ran: there can be no others."""
    return any(one.sums for one in found.rounds)


def _weighting(found: Manifest, wanted: str) -> str:
    """Return what the sums are of: those that are stored, or those that are asked for now."""
    if wanted and wanted not in WEIGHTINGS:
        raise unknown_name_error("weighting", wanted, WEIGHTINGS)
    if not _stored(found):
        return wanted or "equal"
    stored = manifest.sum_queries(found).weights or "size"
    if wanted and wanted != stored:
        raise UsageError(
            f"The federation's sums were stored while it ran, with weights {stored!r}: they cannot "
            f"be had with weights {wanted!r}."
        )
    return stored


def _settings(found: Manifest, wish: ProtocolConfig, threshold: int) -> ProtocolSettings:
    """Return m, K or Q, limit and threshold: what was named, or the federation's."""
    said = manifest.sum_queries(found)
    wanted = {"others": wish.others, "pairs": wish.pairs, "limit": wish.limit}
    named = {name for name, value in wanted.items() if value is not None}
    own = found.secure_aggregation is not None
    if own or wish.threshold is not None or "threshold" in wish.options:
        named.add("threshold")
    if _stored(found):  # drawn with what its manifest says, and an old one says no limit
        limit = 1.0 if said.limit is None else said.limit
    else:  # 1 is what a simulation's settings say where nobody chose any
        limit = defaults.LIMIT if said.limit in (None, 1.0) else said.limit
    return ProtocolSettings(
        others=said.others if wish.others is None else wish.others,
        pairs=said.pairs if wish.pairs is None else wish.pairs,
        limit=limit if wish.limit is None else wish.limit,
        threshold=threshold,
        sets=said.sets if wish.sets is None else wish.sets,
        named=frozenset(named),
    )


def _with_threshold(secure: SecureAggregation, threshold: int) -> SecureAggregation:
    if threshold == secure.threshold:
        return secure
    options = {**table_of(secure), "threshold": threshold}
    lower: SecureAggregation = registry.create("secure aggregation", secure.name, options)
    return lower


def _secure(own: ChosenPlugin | None, wish: ProtocolConfig) -> SecureAggregation:
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


def client_weights(found: Manifest) -> dict[str, float]:
    """Return what each client's update is multiplied by in sums: 1 where all weigh the same.

    Raises InputError for a weight that is no positive finite number: a sum tells nothing of such
    a client.
    """
    own = {client.id: client.weight for client in found.clients}
    if light := [who for who, weight in own.items() if not 0 < weight < math.inf]:
        raise InputError(f"{light[0]} has no positive weight: no sum tells anything of its update.")
    most = max(own.values())  # before anything is added: a sum of weights may be no number
    mean = fmean(weight / most for weight in own.values())
    shares = {who: weight / most / mean for who, weight in own.items()}
    if none := [who for who, share in shares.items() if share < LEAST_SHARE]:
        raise InputError(f"The weight of {none[0]} is too small beside that of other clients.")
    return shares
