"""The workers that clients train in: here, in processes, or on a cluster."""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, as_completed
from contextlib import contextmanager

from fedaudit.engine.engine_name import TRAINING, parse
from fedaudit.simulation.client.local_round import train
from fedaudit.simulation.client.trainer import ClientTraining, forget_model
from fedaudit.simulation.config import Simulation
from fedaudit.system.processes import processes

BROKEN = (
    "A training process ended unexpectedly (out of memory?); give the same command to go on after "
    "the last finished round, perhaps with --set workers=1."
)


def train_jobs(
    pool: Executor | None, jobs: Iterable[ClientTraining]
) -> Iterator[tuple[ClientTraining, float]]:
    """Yield each finished job with its loss, run in the pool's processes or one by one here."""
    if pool is None:
        for job in jobs:
            yield job, train(job)
        return
    futures = {pool.submit(train, job): job for job in jobs}
    for finished in as_completed(futures):
        yield futures[finished], finished.result()


def trains_here(config: Simulation) -> bool:
    """Tell whether clients train in this process, one after the other."""
    from fedaudit.engine.device import device_for

    if parse(config.engine, TRAINING).kind != "local":
        return False
    return device_for(config.device).type != "cpu" or worker_count(config) == 1


def worker_count(config: Simulation) -> int:
    """Return in how many processes clients train on CPU."""
    return config.workers or len(os.sched_getaffinity(0))


@contextmanager
def workers(config: Simulation) -> Iterator[Executor | None]:
    """Provide the pool that clients train in: processes on CPU, None (this process) on a GPU.

    On a Ray cluster, or in Flower's simulation, the processes run there.
    """
    from fedaudit.engine.parallel import flower_pool, ray_cluster

    if trains_here(config):
        yield None
        forget_model()
        return
    engine, count = parse(config.engine, TRAINING)
    if engine == "flower":
        training = flower_pool.training_pool(count, config.clients + 1)
    elif engine == "ray":
        training = ray_cluster.training_pool(count, config.device)
    else:
        training = processes(worker_count(config), BROKEN)
    with training as pool:
        yield pool
