"""The variants of a study, one after the other or several at a time."""

import os
from collections.abc import Container, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path

from fedaudit.api.progress import no_progress
from fedaudit.engine.parallel import ray_cluster
from fedaudit.reproduction.outcome_cache import VariantOutcome
from fedaudit.reproduction.variant import VariantTask, Watch, run_variant
from fedaudit.system.processes import ignoring_interrupts, processes

BROKEN = (
    "A process of the study ended unexpectedly (out of memory?); give the same command to go on "
    "from what is finished, perhaps with --jobs 1."
)


def default_jobs(scale: str, tasks: Sequence[VariantTask]) -> int:
    """Return how many run at a time by default: one a core with the small models of nano on CPU.

    One where a GPU or a Ray cluster does the work, or where models are large.
    """
    from fedaudit.engine.device import device_for

    small = scale == "nano" and all(
        device_for(task.config.device).type == "cpu"
        and ray_cluster.requested_engines(task.config.engine) is None
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
