"""Worker processes on this machine, each with one engine."""

import pickle
import traceback
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import count
from typing import Any

from fedaudit.engine.parallel.worker_pool import WorkerDied
from fedaudit.system import processes


class ProcessBackend:
    """Starts processes, which load an engine at their first question, and calls functions there."""

    location = "in a process of its own"
    fewer = "--engine local"

    def __init__(self) -> None:
        self._pools: dict[int, ProcessPoolExecutor] = {}
        self._numbers = count()

    def start(self) -> tuple[int, "Future[Any]"]:
        """Start a process; return its number and a future that is done once it runs."""
        number, pool = next(self._numbers), processes.fresh_pool(1)
        self._pools[number] = pool
        with processes.ignoring_interrupts():
            return number, _or_lost(pool.submit(int))

    def ask(self, worker: int, question: tuple[Callable[[Any], Any], Any]) -> "Future[Any]":
        """Call a question's function in a process; return a future of the result."""
        function, value = question
        try:
            return _or_lost(self._pools[worker].submit(_answer, function, value))
        except BrokenProcessPool as error:  # the process died while idle
            gone: Future[Any] = Future()
            gone.set_exception(WorkerDied(type(error).__name__))
            return gone

    def stop(self, worker: int) -> None:
        """End a process."""
        if pool := self._pools.pop(worker, None):
            processes.end_pool(pool)

    def close(self) -> None:
        """End all processes."""
        for worker in list(self._pools):
            self.stop(worker)


def _answer(function: Callable[[Any], Any], value: Any) -> Any:
    """Return function(value); an error that cannot be pickled is raised as a RuntimeError."""
    try:
        return function(value)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            raise RuntimeError(traceback.format_exc()) from None
        raise


def _or_lost(future: "Future[Any]") -> "Future[Any]":
    """Return a future of the same result, or of WorkerDied if the process died."""
    outcome: Future[Any] = Future()

    def tell(done: "Future[Any]") -> None:
        try:
            outcome.set_result(done.result())
        except (BrokenProcessPool, CancelledError) as error:
            outcome.set_exception(WorkerDied(type(error).__name__))
        except BaseException as error:
            outcome.set_exception(error)

    future.add_done_callback(tell)
    return outcome
