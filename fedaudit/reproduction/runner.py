"""Running a study: each federation once, the attacks on it, then claims and figures."""

import os
from collections.abc import Container, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.progress import no_progress
from fedaudit.api.records import Claim, Finding, Measurement
from fedaudit.config.options import build_settings, merge_tables
from fedaudit.config.profile import Profile, Published, Variant
from fedaudit.engine.engine_name import TRAINING, parse
from fedaudit.reproduction.answers import remove_answers
from fedaudit.reproduction.claims import check_claims, check_claims_of_seed, compare_figures
from fedaudit.reproduction.contaminated_base import contaminated_base
from fedaudit.reproduction.outcome_cache import VariantOutcome
from fedaudit.reproduction.pooling import average_means, average_ratios, pool_counts
from fedaudit.reproduction.seeds import (
    claims_with_seed_counts,
    describe_seeds,
    describe_tuned,
    measured_means,
    untuned_seeds,
)
from fedaudit.reproduction.study_lock import claim_digests, lock, lock_path, unjudged
from fedaudit.reproduction.variant import VariantTask, Watch, run_variant
from fedaudit.reproduction.variant_checks import check_variant
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.evaluation.llm_judge import VERDICTS
from fedaudit.simulation.preparation import prepare
from fedaudit.system.processes import ignoring_interrupts, processes

if TYPE_CHECKING:
    from fedaudit.report.redaction import Redactor


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyResult:
    """What a study found."""

    measurements: tuple[Measurement, ...]
    findings: tuple[Finding, ...]
    claims: tuple[Claim, ...]
    figures: tuple[tuple[Published, float | None], ...]
    federations: tuple[Path, ...]
    data: tuple[Mapping[str, Any], ...]
    limits: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0,)
    seed: int | None = None
    """The seed of all federations; None if they have different seeds."""
    lock: Mapping[str, str] = field(default_factory=dict)
    """By id, a digest of each claim and its variants as they were judged."""


def study_variants(
    profile: Profile, scale: str, quick: bool, *, own_seeds: bool = True
) -> list[Variant]:
    """Return the variants to run; raises UsageError when the profile has no study.

    Without `own_seeds`, variants that set a seed of their own are left out.
    """
    fitting = [
        profile.variant_at(variant, scale)
        for variant in profile.study
        if profile.runs_at(variant, scale)
    ]
    chosen = [variant for variant in fitting if variant.quick or not quick]
    if not own_seeds:
        chosen = [v for v in chosen if "seed" not in profile.variant_settings(v, scale)]
    if not chosen:
        raise UsageError(f"Profile {profile.name} has no study to reproduce.")
    return chosen


def variant_config(profile: Profile, scale: str, variant: Variant, settings: Any) -> Simulation:
    """Return the federation of a variant: scale, then variant, then the user's settings."""
    overrides = profile.variant_settings(variant, scale)
    table = merge_tables(merge_tables(profile.settings(scale), overrides), settings)
    return build_settings(Simulation, table, f"variant {variant.name}")


def shared_federations(configs: Sequence[Simulation], federations: Path) -> list[Simulation]:
    """Return the settings, with a central model wherever an equal federation asks for one.

    A federation that exists without a central model, and not yet with one, stays unchanged.
    """
    central_configs = [config for config in configs if config.central]
    beside = (replace(config, central=True) for config in configs)
    return [
        central
        if central in central_configs
        and (is_trained(federations, central) or not is_trained(federations, config))
        else config
        for config, central in zip(configs, beside, strict=True)
    ]


def federation_config(variant: Variant, config: Simulation, federations: Path) -> Simulation:
    """Return the settings with the base that a variant's federation starts from.

    Documents are dealt by the embeddings of the clean base, as without contamination.
    """
    if not variant.contaminated:
        return config
    partition = replace(config.partition, embedding=config.partition.embedding or config.base)
    base = str(contaminated_base(config, variant.contaminated, federations))
    return replace(config, base=base, partition=partition)


def _federation_folder(federations: Path, config: Simulation) -> Path:
    return federations / config.sha256()[:12]


def is_trained(federations: Path, config: Simulation) -> bool:
    """Tell whether there is a federation of these settings; not without the file of its records."""
    try:
        return _federation_folder(federations, config).exists()
    except InputError:
        return False


def study_configs(
    profile: Profile,
    scale: str,
    *,
    quick: bool,
    settings: Any,
    federations: Path,
    seeds: int | None,
) -> tuple[list[Variant], dict[int, list[Simulation]]]:
    """Return the variants of a study, and for each seed the federation of each variant."""
    chosen = study_variants(
        profile, scale, quick, own_seeds=seeds is None and "seed" not in settings
    )
    for variant in chosen:  # refuse the user's settings before reading a seed from them
        variant_config(profile, scale, variant, settings)
    by_seed = _settings(profile, settings, seeds)
    every = [
        variant_config(profile, scale, variant, seed_settings)
        for seed_settings in by_seed.values()
        for variant in chosen
    ]
    configs = iter(shared_federations(every, federations))
    return chosen, {seed: [next(configs) for _ in chosen] for seed in by_seed}


def run_study(
    profile: Profile,
    scale: str,
    *,
    quick: bool,
    settings: Any,
    federations: Path,
    redactor: "Redactor",
    watch: Watch,
    jobs: int = 0,
    seeds: int | None = None,
) -> StudyResult:
    """Run every variant; a federation of equal settings is trained once and kept.

    One for which another variant wants a central model is trained with it at once.
    `jobs` variants run at a time: with 0 as many as there are cores, for small models on CPU. With
    `seeds` what is measured are means over so many, and seeds that settings were tuned on are not
    among them. Without, it is what the profile says. Variants that differ in their seed alone would
    all be one federation where the user names the seed, and are left out as they are with `seeds`.
    Beside the federations, a lock keeps what each claim was before a seed was first run: one that
    has changed since is not judged on it.
    """
    chosen, configs = study_configs(
        profile, scale, quick=quick, settings=settings, federations=federations, seeds=seeds
    )
    tasks = {
        seed: [
            VariantTask(
                variant=variant,
                config=(own := federation_config(variant, config, federations)),
                clean_base=config.base,
                folder=_federation_folder(federations, own),
                verdicts=federations.parent / VERDICTS,
                redactor=redactor,
            )
            for variant, config in zip(chosen, group, strict=True)
        ]
        for seed, group in configs.items()
    }
    flat = [task for group in tasks.values() for task in group]
    for task in flat:  # refuse what cannot be trained before training anything
        check_variant(task.variant, task.config)
        prepare(task.config, task.folder)
    used = sorted({task.config.seed for task in flat})
    digests = claim_digests(profile, scale, settings)
    locked = lock(lock_path(federations.parent, scale), digests, used)
    outcomes = iter(run_tasks(flat, jobs or default_jobs(scale, flat), watch))
    outcomes_by_seed = {seed: [next(outcomes) for _ in group] for seed, group in tasks.items()}
    for task in flat:
        remove_answers(task.folder)
    by_seed = {
        seed: _measured_by_variant(profile, chosen, tasks[seed], group)
        for seed, group in outcomes_by_seed.items()
    }
    result = _result(profile, by_seed, outcomes_by_seed, flat)
    claims = tuple(unjudged(result.claims, locked, digests, used))
    result = replace(result, claims=claims, lock=digests)
    if seeds is None and (limit := describe_tuned(profile.tuned_seeds, used)):
        return replace(result, limits=(*result.limits, limit))
    return result


def _settings(profile: Profile, settings: Any, seeds: int | None) -> dict[int, Any]:
    """Return the user's settings by seed; without `seeds` it is the study's, or the user's."""
    first = int(settings.get("seed", 0))
    if seeds is None:
        return {first: settings}
    return {
        seed: {**settings, "seed": seed}
        for seed in untuned_seeds(seeds, first, profile.tuned_seeds)
    }


def _measured_by_variant(
    profile: Profile,
    chosen: Sequence[Variant],
    tasks: Sequence[VariantTask],
    outcomes: Sequence[VariantOutcome],
) -> dict[str, Sequence[Measurement]]:
    """Return what one seed measured, by variant and by pool.

    A pool leaves out variants of tuned seeds, unless it has no others.
    """
    measured: dict[str, Sequence[Measurement]] = {
        variant.name: outcome.measurements
        for variant, outcome in zip(chosen, outcomes, strict=True)
    }
    for name in dict.fromkeys(variant.pool for variant in chosen if variant.pool):
        pooled = [task for task in tasks if task.variant.pool == name]
        fresh = [task for task in pooled if task.config.seed not in profile.tuned_seeds]
        names = dict.fromkeys(task.variant.name for task in fresh or pooled)
        measured[name] = _pooled_rows(name, [row for key in names for row in measured[key]])
    return measured


def _result(
    profile: Profile,
    by_seed: Mapping[int, Mapping[str, Sequence[Measurement]]],
    outcomes_by_seed: Mapping[int, Sequence[VariantOutcome]],
    tasks: Sequence[VariantTask],
) -> StudyResult:
    """Return the study's result: of one seed as it is, of several as means over them."""
    multi_seed, used = len(by_seed) > 1, {task.config.seed for task in tasks}
    outcomes = [outcome for group in outcomes_by_seed.values() for outcome in group]
    [measured, *_] = by_seed.values()
    claims = check_claims(profile, measured)
    limits = [limit for outcome in outcomes for limit in outcome.limits]
    if multi_seed:
        same = any(
            task.config.data != "nano" or task.config.client_data or task.config.test
            for task in tasks
        )
        measured = measured_means(by_seed, same_records=same)
        claims_by_seed = {
            seed: {claim.id: claim for claim in check_claims_of_seed(profile, table)}
            for seed, table in by_seed.items()
        }
        claims = claims_with_seed_counts(
            check_claims(profile, measured, list(by_seed.values()), same_records=same),
            claims_by_seed,
        )
        limits.append(describe_seeds(list(by_seed), profile.tuned_seeds))
    return StudyResult(
        measurements=tuple(row for rows in measured.values() for row in rows),
        findings=tuple(
            replace(finding, id=f"seed-{seed}-{finding.id}") if multi_seed else finding
            for seed, group in outcomes_by_seed.items()
            for outcome in group
            for finding in outcome.findings
        ),
        claims=tuple(claims),
        figures=tuple(compare_figures(profile.figures, measured)),
        federations=tuple(task.folder for task in tasks),
        data=tuple(row for outcome in outcomes for row in outcome.data),
        limits=tuple(dict.fromkeys(limits)),
        seeds=tuple(by_seed),
        seed=next(iter(used)) if len(used) == 1 else None,
    )


def _pooled_rows(name: str, rows: Sequence[Measurement]) -> list[Measurement]:
    """Return the counts and means of the variants that share a name, over all of them."""
    poolers = (pool_counts, average_means, average_ratios)
    return [row for pool in poolers for row in pool(rows, "variant", name)]


BROKEN = (
    "A process of the study ended unexpectedly (out of memory?); give the same command to go on "
    "from what is finished, perhaps with --jobs 1."
)


def default_jobs(scale: str, tasks: Sequence[VariantTask]) -> int:
    """Return how many run at a time by default: one a core with the small models of nano on CPU.

    One where a GPU, a Ray cluster or Flower does the work, or where models are large.
    """
    from fedaudit.engine.device import device_for

    small = scale == "nano" and all(
        device_for(task.config.device).type == "cpu"
        and parse(task.config.engine, TRAINING).kind == "local"
        for task in tasks
    )
    return len(os.sched_getaffinity(0)) if small else 1


def run_tasks(tasks: Sequence[VariantTask], jobs: int, watch: Watch) -> list[VariantOutcome]:
    """Return the outcome of each task, in their order; `jobs` run at a time.

    Tasks on one federation run one after the other. Raises what a task raised: where several run at
    a time, once the others have ended, whose outcomes are kept. Raises Interrupted where a process
    died, which ends the others.
    """
    if min(jobs, len({task.folder for task in tasks})) > 1:
        return _at_once(tasks, jobs, watch)
    outcomes = []
    for number, task in enumerate(tasks, 1):
        watch.variant(task.variant.name, number, len(tasks))
        outcomes.append(run_variant(task, watch))
    return outcomes


def _at_once(tasks: Sequence[VariantTask], jobs: int, watch: Watch) -> list[VariantOutcome]:
    """Run tasks in processes; clients train in `_workers` processes of a task by default."""
    waiting: dict[Path, list[int]] = {}
    for index, task in enumerate(tasks):
        waiting.setdefault(task.folder, []).append(index)
    busy: dict[Future[VariantOutcome], int] = {}
    outcomes: dict[int, VariantOutcome] = {}
    errors: list[Exception] = []
    progress = watch.bar("variants")
    with processes(jobs, BROKEN) as pool:
        while len(outcomes) + len(errors) < len(tasks):
            while len(busy) < jobs:
                number = _next(waiting, {tasks[i].folder for i in busy.values()})
                if number is None:
                    break
                task = tasks[number]
                started = len(outcomes) + len(errors) + len(busy)
                watch.variant(task.variant.name, started + 1, len(tasks))
                others = {tasks[i].folder for left in waiting.values() for i in left}
                workers = task.config.workers or _workers(
                    jobs, len(busy), len(others - {task.folder})
                )
                task_config = replace(task.config, workers=workers)
                with ignoring_interrupts():
                    busy[pool.submit(_quietly, replace(task, config=task_config))] = number
            done, _ = wait(busy, return_when=FIRST_COMPLETED)
            for future in done:
                number = busy.pop(future)
                try:
                    outcomes[number] = future.result()
                except BrokenProcessPool:
                    raise
                except Exception as error:  # raised when the others have ended
                    errors.append(error)
                progress(len(outcomes) + len(errors), len(tasks))
    if errors:
        raise errors[0]
    return [outcomes[index] for index in range(len(tasks))]


def _workers(jobs: int, busy: int, others: int) -> int:
    """Return in how many processes the clients of a task train that runs beside `busy` ones.

    That is one for each task while `others` are waiting. The last federation has two, so that no
    core is idle when the one beside it has ended.
    """
    return max(jobs // (busy + others + 1), 1 if others else 2)


def _next(waiting: Mapping[Path, list[int]], busy_folders: Container[Path]) -> int | None:
    """Take the first task of the idle federation that has the most of them, if any."""
    free = [folder for folder, numbers in waiting.items() if numbers and folder not in busy_folders]
    if not free:
        return None
    return waiting[max(free, key=lambda folder: len(waiting[folder]))].pop(0)


def _quietly(task: VariantTask) -> VariantOutcome:
    """Run a task without reporting progress."""
    nobody = Watch(
        variant=lambda *_: None, training=lambda event: None, bar=lambda title: no_progress
    )
    return run_variant(task, nobody)
