"""Testing many adapters: in worker processes on CPU, in this process on a GPU."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from fedaudit.api.errors import InputError
from fedaudit.api.watermark import Mark, Score
from fedaudit.attribution.owner import detection
from fedaudit.system.processes import processes

if TYPE_CHECKING:
    from fedaudit.engine.local import LocalEngine

BROKEN = "A testing process ended unexpectedly (out of memory?); try again with --workers 1."


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Where models are asked; `workers` 0 is one a core, on CPU only."""

    device: str = "auto"
    dtype: str = "auto"
    workers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionJob:
    """The task to test several adapters of one base, in the form sent to a worker process."""

    key: int
    base: str
    sha256: str
    adapters: tuple[Path, ...]
    marks: tuple[Mark, ...]


class DetectionPool:
    """Worker processes that keep their model, from the first job to the end of the `with` block."""

    def __init__(self, worker_options: WorkerOptions) -> None:
        self.worker_options = worker_options
        self._processes: Executor | None = None
        self._stack = ExitStack()

    def __enter__(self) -> "DetectionPool":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        engine_for.cache_clear()
        self._stack.__exit__(kind, error, trace)

    def count(self) -> int:
        """Return how many jobs may run at once."""
        from fedaudit.engine.device import device_for

        if device_for(self.worker_options.device).type != "cpu":
            return 1
        return self.worker_options.workers or len(os.sched_getaffinity(0))

    def device(self) -> str:
        """Return the device and dtype that models run with, for example "cpu float32"."""
        from fedaudit.engine.device import device_for, dtype_for

        device = device_for(self.worker_options.device)
        return (
            f"{device.type} {str(dtype_for(self.worker_options.dtype, device)).rpartition('.')[2]}"
        )

    def run(self, jobs: Sequence[DetectionJob]) -> Iterator[tuple[int, list[dict[str, Score]]]]:
        """Yield the key and scores of each job when it is done.

        A job's adapters are tested together, and its scores do not depend on the other jobs.
        """
        if self.count() == 1:
            for job in jobs:
                yield job.key, run(job, self.worker_options)
            return
        if self._processes is None:
            self._processes = self._stack.enter_context(processes(self.count(), BROKEN))
        futures = {self._processes.submit(run, job, self.worker_options): job.key for job in jobs}
        for finished in as_completed(futures):
            yield futures[finished], finished.result()


def run(job: DetectionJob, worker_options: WorkerOptions) -> list[dict[str, Score]]:
    """Return the scores of a job's adapters, by mark."""
    engine = engine_for(job.base, job.sha256, worker_options)
    return detection.measure(engine, job.adapters, detection.watermark_plugins(job.marks))


@lru_cache(maxsize=1)
def engine_for(base: str, sha256: str, worker_options: WorkerOptions) -> "LocalEngine":
    """Return the engine of a base; raises InputError unless the base has the hash `sha256`."""
    from fedaudit.engine.loading.loader import load_base
    from fedaudit.engine.local import LocalEngine

    loaded = load_base(base, device=worker_options.device, dtype=worker_options.dtype, fetch=False)
    if sha256 and loaded.sha256 != sha256:
        raise InputError(
            f"The base {base} is not the one that the federation was trained on (SHA-256 "
            f"{loaded.sha256[:12]}, not {sha256[:12]})."
        )
    return LocalEngine(loaded)
