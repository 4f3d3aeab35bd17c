"""A simulation from settings to a finished federation with its report."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.api.errors import InputError
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Document, Measurement, Target
from fedaudit.data import corpus
from fedaudit.federation import manifest
from fedaudit.federation.folder import open_federation
from fedaudit.federation.manifest import Manifest, Round
from fedaudit.simulation import deployment, initialization, local_baseline, rounds
from fedaudit.simulation.client import trainer, training_pool
from fedaudit.simulation.config import SETTINGS_WITHOUT_EFFECT, Simulation
from fedaudit.simulation.context import Listener, Run
from fedaudit.simulation.data import datasets
from fedaudit.simulation.data.datasets import ClientDocuments
from fedaudit.simulation.data.label_skew import label_skew_caveats
from fedaudit.simulation.evaluation import cost, llm_judge, utility
from fedaudit.simulation.evaluation.utility import AnswerJudge
from fedaudit.simulation.preparation import prepare
from fedaudit.system.locks import lock_beside
from fedaudit.system.staging import remove_stale_stages

if TYPE_CHECKING:
    from fedaudit.engine.loading.loader import LoadedBase
    from fedaudit.engine.local import LocalEngine

HELD_OUT = "data/held_out.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    """A complete federation, its utility, and the round that it was resumed after."""

    manifest: Manifest
    measurements: tuple[Measurement, ...]
    limits: tuple[str, ...] = ()
    annotation: str | None = None
    """The detector of the PII that defences protect, if the documents were not annotated."""
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


def lock_run(out: Path) -> AbstractContextManager[None]:
    """Keep other processes from simulating into `out` meanwhile; InputError where one does."""
    # Beside it: a federation's folder is created atomically.
    return lock_beside(out.absolute(), f"Another process is simulating into {out}.")


def differing_settings(existing: Manifest, config: Simulation) -> str:
    """Return the names of the settings in which a federation differs from `config`."""
    table = config.table()
    names = [
        key
        for key in {**table, **existing.config}  # neither has what its version leaves out
        if key not in SETTINGS_WITHOUT_EFFECT and existing.config.get(key) != table.get(key)
    ]
    return ", ".join(names) or "what is in its data"


def simulate(
    config: Simulation,
    out: Path,
    *,
    listener: Listener,
    progress: Callable[[str], Progress] = lambda title: no_progress,
    verdicts: Path | None = None,
    evaluated_round: int = -1,
) -> SimulationResult:
    """Run the simulation into `out`, from where an earlier run of it stopped.

    A judge's scores are kept in the file `verdicts`, or without one in `out`. The utility is that
    after `evaluated_round`, -1 for the last. Callers in several processes must use `lock_run`.
    """
    run, existing = prepare(config, out), existing_manifest(config, out)
    return complete(
        run,
        existing,
        listener=listener,
        progress=progress,
        verdicts=verdicts,
        evaluated_round=evaluated_round,
    )


def complete(
    run: Run,
    existing: Manifest | None,
    *,
    listener: Listener,
    progress: Callable[[str], Progress] = lambda title: no_progress,
    verdicts: Path | None = None,
    evaluated_round: int = -1,
) -> SimulationResult:
    """Run a prepared simulation to its end; `existing` is the manifest in its folder, if any.

    The base is loaded once in this process, and released at the end. See `simulate`.
    """
    from fedaudit.engine.local import LocalEngine

    try:
        config, out = run.config, run.out
        base = trainer.plain_base(config.base, config.device, config.dtype)
        start_manifest, materials = _open_or_create(run, existing, base)
        documents = {client: material.prepared for client, material in materials.items()}
        tokens = datasets.tokenize_clients(config, base, materials)
        run = replace(run, tokens=tokens, documents=documents)
        with _room_for_workers(config, base):
            finished = rounds.run_rounds(run, start_manifest, listener)
            local_baseline.train_local_models(run, listener)
        trained = training_costs(run)
        cost_rows = cost.costs(
            trained,
            base=config.base,
            device=config.device,
            dtype=config.dtype,
            adapter=out / initialization.INITIAL,
        )
        engine = LocalEngine(trainer.plain_base(config.base, config.device, config.dtype))
        deployed = deployment.deploy(
            run, finished, materials, engine, held_out(config, out), progress
        )
        with llm_judge.open_judge(config, verdicts or out / llm_judge.VERDICTS, progress) as judge:
            measured = evaluate(
                config,
                out,
                finished.rounds[evaluated_round],
                engine,
                progress("measuring utility"),
                judge=judge,
            )
        [*annotators] = {
            material.annotation for material in materials.values() if material.annotation
        }
        annotation_caveats = (
            f"the defences only know the PII that was found by {name}" for name in annotators
        )
        return SimulationResult(
            manifest=deployed.manifest,
            measurements=(*measured, *deployed.measurements, *cost_rows),
            limits=(
                *deployed.limits,
                *annotation_caveats,
                *llm_judge.judge_caveats(config, measured),
                *data_caveats(config),
                *label_skew_caveats(config, out),
                *datasets.length_caveats(
                    tokens, min(config.training.max_length, base.context_length)
                ),
            ),
            annotation=annotators[0] if annotators else None,
            resumed_from=len(existing.rounds) - 1 if existing else None,
            tokens=sum(map(cost.tokens, trained)),
        )
    finally:
        trainer.forget_base()


@contextmanager
def _room_for_workers(config: Simulation, base: "LoadedBase") -> Iterator[None]:
    """Keep the base off the accelerator while other processes train on it."""
    from torch import nn

    device = base.model.device
    if training_pool.trains_here(config) or device.type == "cpu":
        yield
        return
    nn.Module.to(base.model, "cpu")
    yield
    nn.Module.to(base.model, device)


def _open_or_create(
    run: Run, existing: Manifest | None, base: "LoadedBase"
) -> tuple[Manifest, dict[str, ClientDocuments]]:
    """Return the existing federation, or a new one, with its clients' documents."""
    config, out = run.config, run.out
    if existing is None:
        start_manifest = initialization.create(config, out, base, run.aggregator)
    elif base.sha256 == existing.base.sha256:
        start_manifest = existing
        remove_stale_stages(out, below=True)
    else:
        raise InputError(f"The base {config.base} is not the one that {out} was begun with.")
    try:
        materials = datasets.client_documents(config, out, start_manifest.clients, run.defenses)
    except InputError:
        if existing is None:  # if a defence refuses the data, no federation is created
            shutil.rmtree(out, ignore_errors=True)
        raise
    return start_manifest, materials


def training_costs(run: Run) -> list[cost.TrainingCost]:
    """Return the cost record of every client's training, leaving out the central model's."""
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
        for task in (*rounds.local_trainings(run, number), *rounds.follow_up_trainings(run, number))
        if task.client
    ]


def held_out(config: Simulation, out: Path) -> list[Document]:
    """Return the untrained documents, as many as are evaluated."""
    if not config.evaluated or not (out / HELD_OUT).is_file():
        return []
    return list(corpus.read(out / HELD_OUT, config.prompt_template))[: config.evaluated]


def evaluate(
    config: Simulation,
    out: Path,
    last: Round,
    engine: "LocalEngine",
    progress: Progress,
    *,
    judge: AnswerJudge | None = None,
) -> Sequence[Measurement]:
    """Return the held-out utility, after the round `last`, of base, tuned and other models.

    The others are central and local ones, where they were trained.
    """
    documents = held_out(config, out)
    if not documents:
        return utility.missing_rows("nothing was held out")
    targets: list[tuple[str, Target | list[Target]]] = [
        ("base", Target(name=config.base)),
        ("tuned", Target(name=last.adapter, adapter=str(out / last.adapter))),
    ]
    central = out / f"central/{last.round:03d}"
    if central.is_dir():
        targets.append(("central", Target(name="central", adapter=str(central))))
    if config.local != "no" and config.compares_utility:
        folders = {
            client: local_baseline.local_adapter(out, client, last.round)
            for client in config.client_names
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


def data_caveats(config: Simulation) -> list[str]:
    """Return caveats on parts of the configured record files that are not read or not used."""
    named = [config.data if config.data != "nano" else "", config.test, config.watermark.documents]
    named += config.client_data.values()
    named += [str(options.get("source", "")) for _, options in config.defense_plugins()]
    form, result = config.prompt_template, []
    for path in dict.fromkeys(Path(name) for name in named if name and Path(name).is_file()):
        unread_counts: Counter[str] = Counter()
        total = sum(1 for _ in corpus.read(path, form, unread_counts))
        result += corpus.unread_caveat(path, unread_counts)
        if path == Path(config.data) and 0 < config.records.limit < total:
            used = f"{config.records.limit:,} of {total:,} documents are used (records.limit)."
            result.append(f"{path}: {used}")
    return result
