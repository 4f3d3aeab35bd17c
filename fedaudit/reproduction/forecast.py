"""What a study comes to, before anything is trained: its federations, questions, time and space."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedaudit.api.cost import Cost, Counts
from fedaudit.api.plugin import DETECTOR
from fedaudit.api.records import Document
from fedaudit.audit.cost import (
    attacks_cost,
    count_spans,
    memorization_cost,
)
from fedaudit.audit.request import Protocol
from fedaudit.config.options import build_settings
from fedaudit.config.profile import Profile, Variant
from fedaudit.report.units import amount, operations, size
from fedaudit.reproduction.audits import traced_rounds
from fedaudit.reproduction.instruments import RANKING
from fedaudit.reproduction.runner import federation_config, is_trained, study_configs
from fedaudit.reproduction.variant_checks import check_variant
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.forecast import Forecast, forecast, on_card
from fedaudit.simulation.preparation import prepare
from fedaudit.system.numbers import count_of, rough_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantForecast:
    """A variant, its federation, and the questions about it to one model."""

    variant: Variant
    federation: Forecast
    is_new: bool
    """Whether the federation is trained for this variant, not for an earlier one."""
    trained: bool
    """Whether an earlier run has trained the federation."""
    cost: Cost

    def describe(self) -> str:
        """Return the forecast in one line."""
        forecast = self.federation
        training = (
            "trained already"
            if self.trained
            else (
                f"{count_of(forecast.steps, 'step')}, about {amount(forecast.tokens)} tokens"
                if self.is_new
                else "the federation of a variant above"
            )
        )
        return f"{self.variant.name}: {training}; {self.cost.describe()}"


def describe_study(
    profile: Profile,
    scale: str,
    *,
    quick: bool,
    settings: Mapping[str, Any],
    federations: Path,
    seeds: int | None = None,
) -> Iterator[str]:
    """Yield the lines that say what `run_study` with the same arguments comes to.

    No model is loaded. Further seeds are taken to cost what the first one costs. The user's
    mistakes are refused as `run_study` refuses them.
    """
    chosen, configs = study_configs(
        profile, scale, quick=quick, settings=settings, federations=federations, seeds=seeds
    )
    made: dict[str, Forecast] = {}
    entries = []
    first, seed_count = next(iter(configs.values())), len(configs)
    for config, variant in zip(first, chosen, strict=True):
        check_variant(variant, config)
        own = federation_config(variant, config, federations)
        key = repr(own)
        is_new = key not in made
        if is_new:
            made[key] = forecast(prepare(config, federations), settings)
        entries.append(
            VariantForecast(
                variant=variant,
                federation=made[key],
                is_new=is_new,
                trained=is_trained(federations, own),
                cost=_cost(variant, made[key]),
            )
        )
    used = f", {count_of(seed_count, 'seed')}" if seed_count > 1 else ""
    yield f"Study: {count_of(len(chosen), 'variant')}{used} on {seed_count * len(made)} federations"
    yield from (f"  {entry.describe()}" for entry in entries)
    yield ""
    yield "The largest federation"
    largest = max(made.values(), key=lambda each: (each.flops, each.tokens))
    yield from (f"  {line}" for line in largest.describe())
    yield ""
    yield "In all"
    yield from (f"  {line}" for line in _totals(entries, seed_count))


def _totals(entries: Sequence[VariantForecast], seeds: int) -> Iterator[str]:
    """Yield the sums over the federations to train and over all questions."""
    training = seeds * [e.federation for e in entries if e.is_new and not e.trained]
    asked = seeds * sum((entry.cost for entry in entries), Cost())
    asked = replace(asked, unknown=tuple(dict.fromkeys(asked.unknown)))
    steps, tokens = sum(f.steps for f in training), sum(f.tokens for f in training)
    yield (
        f"Training: {count_of(len(training), 'federation')}, "
        f"{count_of(sum(f.trainings for f in training), 'training')}, "
        f"{count_of(steps, 'step')}, about {amount(tokens)} tokens"
    )
    yield f"Asked of each attacked model, and of its base: {asked.describe()}"
    if unsized := [f.config.base for f in training if f.base is None]:
        yield f"Without {', '.join(dict.fromkeys(unsized))}, whose size is unknown:"
    flops = sum(f.flops for f in training)
    yield f"Operations of training: about {operations(flops)}"
    seconds = sum(f.seconds for f in training)
    yield f"Time of training: about {rough_duration(seconds)} on this machine{on_card(flops)}"
    memory = max((f.memory * f.processes for f in training), default=0)
    yield f"Memory: about {size(memory)} for the largest federation"
    yield f"Disk: about {size(sum(f.disk for f in training))}"


def _cost(variant: Variant, forecast: Forecast) -> Cost:
    """Return the questions of a variant to one model, with clients as equally large."""
    config, documents = forecast.config, forecast.documents
    each = sum(forecast.shares) // len(forecast.shares)
    clients = config.client_names if "*" in variant.clients else variant.clients
    others = [*variant.attribution, *(["exposure"] if variant.exposure else [])]
    if not documents:
        return Cost(unknown=(*variant.attacks, *others))
    counts = Counts(
        spans=lambda: _spans(documents, config, variant.options),
        tried=sum(forecast.shares) if variant.has_several_victims else each,
        held_out=config.evaluated if "membership" in variant.attacks else 0,
        has_victim=not clients,
    )
    times = len(clients) or (config.clients if variant.matrix else 1)
    rounds = len(traced_rounds(variant, config)) if variant.trace else 1
    cost = times * rounds * attacks_cost(variant.attacks, variant.options, counts)
    if variant.infer is not None:
        cost += attacks_cost((RANKING,), {RANKING: variant.infer}, counts)
    if variant.memorize is not None:
        protocol = build_settings(Protocol, variant.memorize, f"variant {variant.name} memorize")
        cost += memorization_cost(protocol, forecast.shares)
    return cost + Cost(unknown=tuple(others))


def _spans(
    documents: Sequence[Document], config: Simulation, options: Mapping[str, Any]
) -> tuple[int, bool]:
    """Return the PII spans of one client's documents, estimated from those of all clients."""
    spans, _ = count_spans(documents, DETECTOR, options)
    return round(spans / config.clients), True
