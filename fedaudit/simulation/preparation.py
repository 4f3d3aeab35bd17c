"""The plugins of a simulation, chosen and checked before anything is read or written."""

from collections.abc import Sequence
from pathlib import Path

from fedaudit.api.defense import Defense
from fedaudit.api.errors import UsageError
from fedaudit.api.plugin import Aggregator
from fedaudit.api.secure_aggregation import SecureAggregation
from fedaudit.config import registry
from fedaudit.engine.engine_name import TRAINING, parse
from fedaudit.engine.parallel import flower_pool, ray_cluster
from fedaudit.simulation import local_baseline, rounds
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.context import Run
from fedaudit.simulation.data.canary_planting import check_canaries
from fedaudit.simulation.data.datasets import ClientSequences
from fedaudit.simulation.evaluation import llm_judge
from fedaudit.simulation.server import secure_aggregation as secured

DEFAULT = "fedavg"
"""The default aggregation, which a defence may replace without a warning."""


def prepare(config: Simulation, out: Path) -> Run:
    """Return the run with its plugins, before anything is read; unknown names are refused."""
    form = config.prompt_template
    engine = parse(config.engine, TRAINING).kind
    if engine == "ray":
        ray_cluster.check(config.device)
    elif engine == "flower":
        flower_pool.check(config.device)
    llm_judge.check(config)
    check_canaries(config)
    name, options = config.aggregator()
    aggregator = registry.create("aggregation", name, options)
    marking, marks = config.watermark_plugin()
    if marking:
        registry.create("watermark", marking, marks)
    defenses = [registry.create("defense", *chosen) for chosen in config.defense_plugins()]
    for defense in defenses:
        defense.check(form)
    names = [defense.name for defense in defenses]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"The defence {twice[0]} is named twice.")
    chosen = aggregator
    for defense in defenses:
        aggregator = defense.server(aggregator)
    if aggregator is not chosen and name != DEFAULT:
        raise UsageError(
            f"A defence takes {aggregator.name} steps at the server in place of {chosen.name}: "
            "leave one of them out (for secure_gate: nesterov=false)."
        )
    _check_penalty(config, aggregator, defenses)
    run = Run(
        config=config,
        out=out,
        aggregator=aggregator,
        secure=_secure_plugin(config, defenses),
        defenses=defenses,
        tokens=ClientSequences(shared={}, private={}),
    )
    local_baseline.check(run)
    rounds.check_participants(config)
    return run


def _secure_plugin(config: Simulation, defenses: Sequence[Defense]) -> SecureAggregation | None:
    """Return the configured secure aggregation, after checking that its requirements are met."""
    name, options = config.secure_aggregation_plugin()
    if not name:
        return None
    secure: SecureAggregation = registry.create("secure aggregation", name, options)
    secure.check()
    _check_sets(config, secure.threshold)
    if answering := [d.name for d in defenses if type(d).responder is not Defense.responder]:
        raise UsageError(
            f"The defence {answering[0]} deploys from clients' adapters, which secure aggregation "
            "does not keep: leave one of them out."
        )
    return secure


def _check_sets(config: Simulation, threshold: int) -> None:
    """Refuse sets of sums that cannot be drawn, and name the settings that they follow from."""
    everybody = dict.fromkeys(rounds.participants(config, 1))
    try:
        secured.requested_sets(everybody, config, threshold, 1)
    except UsageError as error:
        size = "sets" if config.queries.protocol == "shared" else "others"
        names = f"queries.{size}, queries.limit and secure_aggregation.threshold"
        raise UsageError(f"{error} The settings are {names}.") from None


def _check_penalty(config: Simulation, aggregator: Aggregator, defenses: Sequence[Defense]) -> None:
    """Refuse a defence's own training where the settings ask for a loss that it lacks."""
    taking_over = [d.name for d in defenses if type(d).train is not Defense.train]
    if taking_over and config.training.learned != "text":
        raise UsageError(
            f"The defence {taking_over[0]} learns whole texts: leave training.learned out."
        )
    if taking_over and type(aggregator).penalty is not Aggregator.penalty:
        raise UsageError(
            f"The aggregation {aggregator.name} adds to the clients' loss, which the defence "
            f"{taking_over[0]} does not do: choose another of either."
        )
