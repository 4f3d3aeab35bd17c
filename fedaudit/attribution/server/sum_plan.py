"""The plan of the sums to ask for: designs for every participant of every round."""

import math
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean

import numpy as np

from fedaudit.api.errors import InputError, UsageError, unknown_name_error
from fedaudit.api.plugin import Aggregator
from fedaudit.api.secure_aggregation import SecureAggregation
from fedaudit.attribution.server import defaults, masks, set_selection, stored_updates
from fedaudit.attribution.server.defaults import ProtocolSettings
from fedaudit.attribution.server.protocol_config import ProtocolConfig
from fedaudit.attribution.server.round_designs import PAIRS, PROTOCOLS, SHARED, RoundDesign
from fedaudit.attribution.server.set_selection import ExposureError
from fedaudit.config import registry
from fedaudit.config.options import table_of
from fedaudit.federation import manifest
from fedaudit.federation.folder import Federation
from fedaudit.federation.manifest import ChosenPlugin, Manifest
from fedaudit.metrics.attribution import shared_rule
from fedaudit.metrics.attribution.subset_design import Members
from fedaudit.metrics.attribution.sum_leakage import (
    InnerProducts,
    SumLeakage,
    hidden_variances,
    sum_leakage,
)

WEIGHTINGS = ("equal", "size")
"""How updates enter a sum: as they are, or multiplied by their client's weight over the mean."""
HIDDEN = 0.2
"""The least share of an update's variance that shared sums leave hidden, unless named."""
MOST_UNLIKE = 1.4
"""The largest ratio of weights at which sums by size are tried."""
LEAST_SHARE = 1e-12
"""The least weight over the mean that a sum can include: smaller ones are lost in rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SumPlan:
    """The sums that the server will ask for, as a design for the estimates of each round."""

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
    """The factor of each client's update in the sums."""
    products: Mapping[int, InnerProducts] = field(default_factory=dict)
    """The inner products of what is summed, of rounds that store their updates; for shared sets."""
    notes: tuple[str, ...] = ()
    """Notes on settings that replaced impossible ones."""

    @property
    def queries(self) -> int:
        """The number of sums behind the estimates of all rounds."""
        return sum(design.sum_count for design in self.designs.values())

    def sets(self, number: int) -> list[Members]:
        """Return a round's distinct sets; last that of its own sum, which the server knows too."""
        everybody = tuple(sorted(self.federation.manifest.rounds[number].participants))
        return [s for s in self.designs[number].sets if s != everybody] + [everybody]

    def exposures(
        self, rounds: Sequence[int] | None = None, colluders: Sequence[str] = ()
    ) -> dict[int, SumLeakage]:
        """Return the leakage of each round's series of sums, for `rounds` or else for all rounds.

        `colluders` are clients who tell the server their updates.
        """
        chosen = self.designs if rounds is None else rounds
        return {number: self._exposure(number, colluders) for number in chosen}

    def hidden_over_rounds(self) -> tuple[str, float]:
        """Return the least hidden client and its share if updates were the same in each round."""
        weights = client_weights(self.federation.manifest)
        names = list(weights)
        rows = [
            [self.weights[n] if n in members else 0.0 for n in names]
            for number in self.designs
            for members in self.designs[number].sets
        ]
        for number in self.designs:
            present = self.federation.manifest.rounds[number].participants
            rows.append([weights[n] if n in present else 0.0 for n in names])
        hidden = dict(zip(names, hidden_variances(np.array(rows)).tolist(), strict=True))
        client = min(hidden, key=lambda name: (hidden[name], name))
        return client, hidden[client]

    def _exposure(self, number: int, colluders: Sequence[str]) -> SumLeakage:
        """Return a round's exposure; the round's own sum is always over weighted updates."""
        sets, threshold = self.sets(number), self.secure.threshold
        products = None if colluders else self.products.get(number)
        weights = client_weights(self.federation.manifest)
        if self.weights == weights:
            return sum_leakage(sets, threshold, colluders=colluders, products=products)
        weights = {
            client: weights[client]
            for client in self.federation.manifest.rounds[number].participants
        }
        return sum_leakage(sets[:-1], threshold, weights, colluders=colluders, products=products)


def percent_up(share: float) -> str:
    """Return a share in per cent, rounded upwards."""
    return f"{math.ceil(100 * share - 1e-6)}%"


def describe_hidden(exposure: SumLeakage) -> str:
    """Return in one sentence how much of an update can be told from all sums of a round."""
    client, hidden = exposure.least_hidden
    condition = (
        "as measured on the updates stored here"
        if exposure.measured
        else "if updates are unlike each other and of equal length"
    )
    return (
        f"given all sums and the round's own, at most {percent_up(1 - hidden)} of the variance of "
        f"{client}'s update can be told, the most of any client: the best linear reconstruction "
        f"has a cosine of about {(1 - hidden) ** 0.5:.2f} with it, {condition}"
    )


def draw_sum_plan(
    federation: Federation, protocol_config: ProtocolConfig, *, secret: bool = False
) -> SumPlan:
    """Return a plan as `_draw_plan` does, with weights and sets that leave enough hidden.

    Of shared sets, a default that does not leave `hidden` of every update's variance is replaced by
    the nearest setting that does, and the plan's notes say so; a named setting is refused, and the
    message names one that would do.
    """
    products: dict[int, InnerProducts] = {}
    aggregator = stored_updates.aggregator_of(federation)
    chosen = _select_rounds(federation.manifest, protocol_config.rounds)
    stored_updates.check(federation, aggregator, chosen)
    if _protocol(federation.manifest, protocol_config) == SHARED:
        products = stored_updates.inner_products(federation, aggregator, chosen)
    draw = partial(_draw_plan, federation, secret=secret, products=products)
    try:
        return draw(protocol_config)
    except ExposureError as error:
        named = protocol_config.sets is not None or bool(protocol_config.weights)
        for config, setting in _safer(federation.manifest, protocol_config):
            try:
                plan = draw(config)
            except UsageError:
                continue
            if named:
                raise UsageError(f"{error} {setting} would do.") from None
            note = f"{setting} in place of the default: {error}"
            return replace(plan, notes=(*plan.notes, note.removesuffix(".")))
        raise UsageError(f"{error} {_best(federation.manifest, protocol_config, draw)}") from None


def _best(
    fed_manifest: Manifest, config: ProtocolConfig, draw: Callable[[ProtocolConfig], SumPlan]
) -> str:
    """Return in a sentence which setting of shared sets leaves most, if none leaves enough."""
    left = {}
    for each, setting in [(config, ""), *_safer(fed_manifest, config)]:
        try:
            plan = draw(replace(each, hidden=0.0))
        except UsageError:
            continue
        worst = min(exposure.least_hidden[1] for exposure in plan.exposures().values())
        left[setting] = math.floor(worst * 100) / 100
    setting = max(left, key=lambda name: left[name])
    lower = f"{setting} --hidden {left[setting]:g}".strip()
    return (
        f"No number of shared sets leaves enough of every update: it takes more clients, or a "
        f"round aggregated with equal weights; {lower} would do."
    )


def _safer(fed_manifest: Manifest, config: ProtocolConfig) -> Iterator[tuple[ProtocolConfig, str]]:
    """Yield settings of shared sets that reveal less, the nearest first, with their names."""
    if _has_stored_sums(fed_manifest):
        return
    weights = client_weights(fed_manifest)
    if max(weights.values()) / min(weights.values()) <= MOST_UNLIKE:
        yield replace(config, weights="size", sets=None), "--weights size"
    most = shared_rule.default_queries(len(weights), total_known=False)
    for sets in range((config.sets or most) - 1, 1, -1):
        yield replace(config, weights="equal", sets=sets), f"--sets {sets}"


def _draw_plan(
    federation: Federation,
    protocol_config: ProtocolConfig,
    *,
    secret: bool,
    products: Mapping[int, InnerProducts],
) -> SumPlan:
    """Return a plan with newly drawn designs; no sum is asked for yet.

    With `secret`, a seed that no one can guess is used if neither `protocol_config` nor the
    federation has one, because anyone who gets the estimates must not know the sets. Raises
    UsageError for a missing round or an impossible design, InputError for a federation without
    updates or sums.
    """
    fed_manifest = federation.manifest
    seed = (
        protocol_config.seed
        if protocol_config.seed is not None
        else manifest.sum_queries(fed_manifest).seed
    )
    if seed is None:
        seed = secrets.randbits(63) if secret else 0
    protocol = _protocol(fed_manifest, protocol_config)
    weighting, weights = (
        _weighting(fed_manifest, protocol_config.weights),
        client_weights(fed_manifest),
    )
    shares = weights if weighting == "size" else dict.fromkeys(weights, 1.0)
    # The sets of stored sums were drawn without regard to the clients' weights.
    design_shares = None if _has_stored_sums(fed_manifest) else shares
    secure = _secure(manifest.chosen_plugin(fed_manifest, "secure_aggregation"), protocol_config)
    chosen = _select_rounds(fed_manifest, protocol_config.rounds)
    products = {number: one.scaled(shares) for number, one in products.items()}
    relative = {
        client: weights[client] / shares[client] for client in weights
    }  # in the round's own sum
    kinds = set_selection.kinds(fed_manifest, chosen, relative, design_shares)
    settings = _settings(fed_manifest, protocol_config, secure.threshold)
    if not _has_stored_sums(fed_manifest):
        settings = defaults.nearest(protocol, settings, kinds)
    if protocol == SHARED:
        rules = defaults.rules(settings, kinds)
        stored = _has_stored_sums(fed_manifest)
        floor = HIDDEN if protocol_config.hidden is None else protocol_config.hidden
        designs = set_selection.shared(
            fed_manifest, rules, seed, relative, 0.0 if stored else floor, products
        )
    else:
        designs = set_selection.pairs(fed_manifest, chosen, settings, seed, design_shares)
    plan = SumPlan(
        federation=federation,
        aggregator=stored_updates.aggregator_of(federation),
        secure=_with_threshold(secure, settings.threshold),
        protocol=protocol,
        others=0 if protocol == SHARED else settings.others,
        pairs=0 if protocol == SHARED else settings.pairs,
        limit=settings.limit,
        seed=seed,
        designs=designs,
        weighting=weighting,
        weights=shares,
        products=products,
        notes=settings.notes,
    )
    masks.check(designs, shares)
    return plan


def _protocol(fed_manifest: Manifest, protocol_config: ProtocolConfig) -> str:
    """Return the protocol of `protocol_config`, or the one that the federation was run with.

    Raises UsageError for an unknown protocol, for settings of the other protocol, and for a
    protocol that differs from that of stored sums.
    """
    run_protocol = manifest.sum_queries(fed_manifest).protocol or PAIRS
    protocol = protocol_config.protocol or run_protocol
    if protocol not in PROTOCOLS:
        raise unknown_name_error("protocol", protocol, PROTOCOLS)
    if _has_stored_sums(fed_manifest) and protocol != run_protocol:
        raise UsageError(
            f"The federation's sums were stored while it ran, with protocol {run_protocol!r}: "
            f"there are none with {protocol!r}."
        )
    if protocol == SHARED and (
        protocol_config.others is not None or protocol_config.pairs is not None
    ):
        raise UsageError(
            "--others and --queries are for pairs of sets: shared sets have half the clients, and "
            "--sets says how many sets there are."
        )
    if protocol == PAIRS and protocol_config.sets is not None:
        raise UsageError("--sets is for shared sets: it needs --protocol shared.")
    return protocol


def _has_stored_sums(fed_manifest: Manifest) -> bool:
    """Return whether sums were stored while the federation ran; then no others can be asked for."""
    return any(r.sums for r in fed_manifest.rounds)


def _weighting(fed_manifest: Manifest, weighting: str) -> str:
    """Return the weighting of the sums, be they stored or asked for now."""
    if weighting and weighting not in WEIGHTINGS:
        raise unknown_name_error("weighting", weighting, WEIGHTINGS)
    if not _has_stored_sums(fed_manifest):
        return weighting or "equal"
    stored = manifest.sum_queries(fed_manifest).weights or "size"
    if weighting and weighting != stored:
        raise UsageError(
            f"The federation's sums were stored while it ran, with weights {stored!r}: there are "
            f"none with weights {weighting!r}."
        )
    return stored


def _settings(
    fed_manifest: Manifest, protocol_config: ProtocolConfig, threshold: int
) -> ProtocolSettings:
    """Return m, K or Q, limit and threshold: as named, or else the federation's."""
    queries = manifest.sum_queries(fed_manifest)
    named_values = {
        "others": protocol_config.others,
        "pairs": protocol_config.pairs,
        "limit": protocol_config.limit,
    }
    named = {name for name, value in named_values.items() if value is not None}
    is_secure = fed_manifest.secure_aggregation is not None
    if is_secure or protocol_config.threshold is not None or "threshold" in protocol_config.options:
        named.add("threshold")
    if _has_stored_sums(fed_manifest):  # drawn as its manifest says; an old one has no limit
        limit = 1.0 if queries.limit is None else queries.limit
    else:  # a simulation's settings have 1 where no one chose a limit
        limit = defaults.LIMIT if queries.limit in (None, 1.0) else queries.limit
    return ProtocolSettings(
        others=queries.others if protocol_config.others is None else protocol_config.others,
        pairs=queries.pairs if protocol_config.pairs is None else protocol_config.pairs,
        limit=limit if protocol_config.limit is None else protocol_config.limit,
        threshold=threshold,
        sets=queries.sets if protocol_config.sets is None else protocol_config.sets,
        explicit=frozenset(named),
    )


def _with_threshold(secure: SecureAggregation, threshold: int) -> SecureAggregation:
    if threshold == secure.threshold:
        return secure
    options = {**table_of(secure), "threshold": threshold}
    lower: SecureAggregation = registry.create("secure aggregation", secure.name, options)
    return lower


def _secure(plugin: ChosenPlugin | None, protocol_config: ProtocolConfig) -> SecureAggregation:
    """Return the secure aggregation to ask: the federation's own, or a new one over its updates."""
    name = protocol_config.secure or (plugin.name if plugin else "") or "ideal"
    options = dict(plugin.options) if plugin and name == plugin.name else {}
    secure: SecureAggregation = registry.create(
        "secure aggregation", name, {**options, **protocol_config.options}
    )
    if protocol_config.threshold is None:
        return secure
    if "threshold" in options and protocol_config.threshold < secure.threshold:
        raise UsageError(
            f"The federation's secure aggregation gives no sum over fewer than "
            f"{secure.threshold} clients; a threshold of {protocol_config.threshold} is below that."
        )
    options["threshold"] = protocol_config.threshold
    lower: SecureAggregation = registry.create(
        "secure aggregation", name, {**options, **protocol_config.options}
    )
    return lower


def _select_rounds(fed_manifest: Manifest, numbers: Sequence[int]) -> list[int]:
    last = len(fed_manifest.rounds) - 1
    if not last:
        raise InputError("The federation has no finished round: there is no update to attribute.")
    for number in numbers:
        if not 1 <= number <= last:
            raise UsageError(f"The federation has rounds 1 to {last}, no round {number}.")
    if repeated := sorted({number for number in numbers if list(numbers).count(number) > 1}):
        raise UsageError(f"Round {repeated[0]} is named twice.")
    chosen = sorted(numbers) or list(range(1, last + 1))
    rule = str(fed_manifest.aggregation.get("name", ""))
    if chosen[-1] > 1 and _shares_gradients(rule):
        raise UsageError(
            f"Under {rule} every client's update after round 1 has the other clients' gradients in "
            "it, so that one client's mark shows in the updates of all: only round 1 can be "
            "attributed (attribute estimate --round 1, then score and decide)."
        )
    return chosen


def _shares_gradients(rule: str) -> bool:
    """Tell whether clients correct their gradients by the others', as under SCAFFOLD."""
    plugin = registry.plugins("aggregation").get(rule)
    return plugin is not None and issubclass(plugin, Aggregator) and plugin.stateful_clients


def client_weights(fed_manifest: Manifest) -> dict[str, float]:
    """Return the factor of each client's update in sums: 1 if all clients have the same weight.

    Raises InputError for a weight that is not a positive finite number, since a sum would carry no
    information about such a client.
    """
    weights = {client.id: client.weight for client in fed_manifest.clients}
    if light := [client for client, weight in weights.items() if not 0 < weight < math.inf]:
        raise InputError(f"{light[0]} has no positive weight: no sum tells anything of its update.")
    most = max(weights.values())  # weights are divided by it first, or their sum may overflow
    mean = fmean(weight / most for weight in weights.values())
    shares = {client: weight / most / mean for client, weight in weights.items()}
    if none := [client for client, share in shares.items() if share < LEAST_SHARE]:
        raise InputError(f"The weight of {none[0]} is too small beside that of other clients.")
    return shares
