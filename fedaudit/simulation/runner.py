"""A simulation from settings to a finished federation with its report."""

import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.api.defense import Defense
from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.plugin import Aggregator
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Document, Measurement, Target
from fedaudit.api.secure_aggregation import SecureAggregation
from fedaudit.config import registry
from fedaudit.data import corpus
from fedaudit.engine.parallel import flower_pool, ray_cluster
from fedaudit.federation import manifest
from fedaudit.federation.folder import open_federation
from fedaudit.federation.manifest import Manifest
from fedaudit.simulation import deployment, initialization, local_baseline, rounds
from fedaudit.simulation.config import NO_PART, Simulation
from fedaudit.simulation.context import Listener, Run
from fedaudit.simulation.data import caveats, datasets
from fedaudit.simulation.data.datasets import ClientSequences
from fedaudit.simulation.evaluation import cost, llm_judge, utility
from fedaudit.simulation.evaluation.utility import Judge
from fedaudit.simulation.server import secure_aggregation as secured
from fedaudit.system.files import remove_stale_temp_files
from fedaudit.system.locks import locked

if TYPE_CHECKING:
    from fedaudit.engine.local import LocalEngine

HELD_OUT = "data/held_out.jsonl"
DEFAULT = "fedavg"
"""The aggregation where none is named, which a defence may replace silently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    """A complete federation, its utility, and the round that it was resumed after."""

    manifest: Manifest
    measurements: tuple[Measurement, ...]
    limits: tuple[str, ...] = ()
    annotation: str | None = None
    """What found the PII that the defences went by, where documents were not annotated."""
    resumed_from: int | None
    tokens: int = 0
    """Tokens trained on by all clients together, each as often as it was."""


def existing_manifest(config: Simulation, out: Path) -> Manifest | None:
    """Return this simulation's manifest in `out`; None where the folder is empty or missing.

    Raises InputError when `out` holds something else: nothing is ever overwritten.
    """
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    if not (out / manifest.NAME).is_file():
        raise InputError(f"{out} is not empty and holds no federation; choose another --out.")
    existing = open_federation(out).manifest
    if existing.config_sha256 != config.sha256():
        changed = differing_settings(existing, config)
        raise InputError(
            f"{out} holds another run (it differs in {changed}); choose another --out or remove it."
        )
    return existing


def alone_in(out: Path) -> AbstractContextManager[None]:
    """Keep other processes from simulating into `out` meanwhile; InputError where one does."""
    # Beside it: a federation's folder is created atomically.
    beside = out.absolute().parent / f".{out.name}.lock"
    return locked(beside, f"Another process is simulating into {out}.")


def differing_settings(existing: Manifest, config: Simulation) -> str:
    """Return the names of the settings in which a federation differs from `config`."""
    table = config.table()
    names = [key for key in table if key not in NO_PART and existing.config.get(key) != table[key]]
    return ", ".join(names) or "what is in its data"


def simulate(
    config: Simulation,
    out: Path,
    *,
    listener: Listener,
    progress: Callable[[str], Progress] = lambda title: no_progress,
    verdicts: Path | None = None,
) -> SimulationResult:
    """Run the simulation into `out`, from where an earlier run of it stopped.

    What a judge says is kept in the file `verdicts`; without one, in `out`. Whoever calls this from
    several processes keeps them apart with `alone_in`.
    """
    from fedaudit.engine.loading.loader import load_base
    from fedaudit.engine.local import LocalEngine

    run = prepare(config, out)
    start_manifest = existing_manifest(config, out)
    base = load_base(config.base, device=config.device, dtype=config.dtype)
    resumed = len(start_manifest.rounds) - 1 if start_manifest else None
    if start_manifest is None:
        start_manifest = initialization.create(config, out, base, run.aggregator)
    elif not base.known_as(start_manifest.base.sha256):
        raise InputError(f"The base {config.base} is not the one that {out} was begun with.")
    else:
        remove_stale_temp_files(out)
    try:
        materials = datasets.client_documents(config, out, start_manifest.clients, run.defenses)
    except InputError:
        if resumed is None:  # what a defence refuses was never a federation
            shutil.rmtree(out, ignore_errors=True)
        raise
    documents = {client: material.prepared for client, material in materials.items()}
    tokens = datasets.tokenize_clients(config, base, materials)
    run = replace(run, tokens=tokens, documents=documents)
    del base  # its memory is the workers' now
    finished = rounds.run_rounds(run, start_manifest, listener)
    local_baseline.train_alone(run, listener)
    trained = training_costs(run)
    cost_rows = cost.costs(
        trained,
        base=config.base,
        device=config.device,
        dtype=config.dtype,
        adapter=out / initialization.INITIAL,
    )
    engine = LocalEngine(load_base(config.base, device=config.device, dtype=config.dtype))
    deployed = deployment.deploy(run, finished, materials, engine, held_out(config, out), progress)
    with llm_judge.open_judge(config, verdicts or out / llm_judge.VERDICTS, progress) as judge:
        measured = evaluate(
            config, out, finished, engine, progress("measuring utility"), judge=judge
        )
    [*annotators] = {material.annotation for material in materials.values() if material.annotation}
    blind = tuple(f"the defences only know the PII that was found by {name}" for name in annotators)
    return SimulationResult(
        manifest=deployed.manifest,
        measurements=(
            *measured,
            *deployed.measurements,
            *cost_rows,
        ),
        limits=(
            *deployed.limits,
            *blind,
            *llm_judge.judge_caveats(config, measured),
            *caveats.data_caveats(config),
        ),
        annotation=annotators[0] if annotators else None,
        resumed_from=resumed,
        tokens=sum(map(cost.tokens, trained)),
    )


def prepare(config: Simulation, out: Path) -> Run:
    """Return the run with its plugins, before anything is read; unknown names are refused."""
    form = config.prompt_template
    if ray_cluster.requested_processes(config.engine):
        raise UsageError("To train N clients at once, use --set workers=N, not --engine local:N.")
    if flower_pool.requested_clients(config.engine) is None:
        ray_cluster.check(config.engine, config.device)
    else:
        flower_pool.check(config.device)
    llm_judge.check(config)
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
    """Return the secure aggregation asked for, once everything it needs is known to be there."""
    name, options = config.secure_aggregation_plugin()
    if not name:
        return None
    secure: SecureAggregation = registry.create("secure aggregation", name, options)
    secure.check()
    everybody = dict.fromkeys(rounds.participants(config, 1))
    secured.requested_sets(
        everybody, config, secure.threshold, 1
    )  # refuses a design that cannot be
    if answering := [d.name for d in defenses if type(d).responder is not Defense.responder]:
        raise UsageError(
            f"The defence {answering[0]} deploys from clients' adapters, which secure aggregation "
            "does not keep: leave one of them out."
        )
    return secure


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


def training_costs(run: Run) -> list[cost.TrainingCost]:
    """Return the cost record of every client's training; the central model's is none."""
    config = run.config
    return [
        cost.TrainingCost(
            stage="private" if task.chain else "federated",
            client=task.client,
            round=number,
            sequences=task.sequences,
            training=config.training,
            seed=rounds.seed_of(config.seed, number, task.model_name),
            adapter=task.chain.name if task.chain else "",
            messages=2 if run.aggregator.stateful_clients and not task.chain else 1,
        )
        for number in range(1, config.rounds + 1)
        for task in (*rounds.tasks(run, number), *rounds.follow_up_trainings(run, number))
        if task.client
    ]


def held_out(config: Simulation, out: Path) -> list[Document]:
    """Return the documents that nobody trained on, as many as are evaluated."""
    if not config.evaluated or not (out / HELD_OUT).is_file():
        return []
    return list(corpus.read(out / HELD_OUT, config.prompt_template))[: config.evaluated]


def evaluate(
    config: Simulation,
    out: Path,
    finished: Manifest,
    engine: "LocalEngine",
    progress: Progress,
    *,
    judge: Judge | None = None,
) -> Sequence[Measurement]:
    """Return the held-out utility of base, tuned and (where trained) central and local models."""
    documents = held_out(config, out)
    if not documents:
        return utility.missing_rows("nothing was held out")
    last = finished.rounds[-1]
    targets: list[tuple[str, Target | list[Target]]] = [
        ("base", Target(name=config.base)),
        ("tuned", Target(name=last.adapter, adapter=str(out / last.adapter))),
    ]
    central = out / f"central/{last.round:03d}"
    if central.is_dir():
        targets.append(("central", Target(name="central", adapter=str(central))))
    if config.local != "no" and config.compares_utility:
        folders = {
            client.id: local_baseline.local_adapter(out, client.id, last.round)
            for client in finished.clients
        }
        models = [Target(name=f"{c} alone", adapter=str(p)) for c, p in folders.items()]
        targets.append(("local", models))
    return utility.measure(
        engine,
        targets,
        documents,
        config.prompt_template,
        seed=config.seed,
        max_length=min(config.training.max_length, engine.context_length),
        judge=judge,
        progress=progress,
    )
