"""A pool of workers that may die; a question that a dead worker leaves goes to another worker."""

import pickle
import traceback
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any, Protocol

from fedaudit.api.errors import Interrupted, TargetError

ATTEMPTS = 3
"""The number of deaths at one question, or at starts in a row, after which the pool gives up."""

PATIENCE = 300.0
"""Seconds within which a worker must start if no other worker is busy."""


class WorkerDied(Exception):
    """A worker ended before it answered; the text is the backend's error."""


def portable_error(error: Exception) -> Exception:
    """Return an error that is being handled, or a RuntimeError if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(traceback.format_exc())
    return error


class WorkerBackend(Protocol):
    """Starts numbered workers and asks them questions; each is a function and its arguments.

    Futures raise WorkerDied if a worker dies.
    """

    def start(self) -> tuple[int, "Future[Any]"]:
        """Start a worker; return its number, and a future that is done once it has started."""
        ...

    def ask(self, worker: int, question: Any) -> "Future[Any]":
        """Ask an idle worker a question."""
        ...

    def stop(self, worker: int) -> None:
        """End a worker if it is alive."""
        ...


@dataclass(frozen=True, slots=True)
class _Task:
    """What a worker is doing: a question's index, or None if no one waits for the result."""

    worker: int
    question: int | None = None
    starting: bool = False


class WorkerPool:
    """A pool of at most `size` workers, which are started when there is work for them."""

    def __init__(self, backend: WorkerBackend, size: int, *, patience: float = PATIENCE) -> None:
        self.backend, self.size, self.patience = backend, size, patience
        self._idle: list[int] = []
        self._tasks: dict[Future[Any], _Task] = {}
        self._failed = 0

    def answers(self, questions: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Yield the index of each question with its answer, as answers arrive.

        Raises a worker's own errors; Interrupted if workers die ATTEMPTS times at the same question
        or at their start; TargetError if no worker starts in time.
        """
        waiting, tries, remaining = deque(range(len(questions))), Counter[int](), len(questions)
        try:
            while remaining:
                self._start_workers(remaining)
                while waiting and self._idle:
                    worker, index = self._idle.pop(), waiting.popleft()
                    tries[index] += 1
                    self._tasks[self.backend.ask(worker, questions[index])] = _Task(worker, index)
                task, future = self._next()
                try:
                    answer = self._result(task, future)
                except WorkerDied as lost:
                    failed = self._failed
                    if task.question is not None:
                        waiting.appendleft(task.question)
                        failed = tries[task.question]
                    if failed >= ATTEMPTS:
                        raise self._give_up_error(lost) from None
                    continue
                if task.question is not None:
                    remaining -= 1
                    yield task.question, answer
        finally:
            # Workers that are still busy continue; their answers are dropped.
            self._tasks = {f: _Task(d.worker, None, d.starting) for f, d in self._tasks.items()}

    def _start_workers(self, count: int) -> None:
        while len(self._idle) + len(self._tasks) < min(self.size, count):
            worker, startup = self.backend.start()
            self._tasks[startup] = _Task(worker, starting=True)

    def _next(self) -> tuple[_Task, "Future[Any]"]:
        """Wait for a task to finish; remove it from the pool's tasks; return it and its future."""
        all_start = all(task.starting for task in self._tasks.values())
        done, _ = wait(self._tasks, self.patience if all_start else None, FIRST_COMPLETED)
        if not done:
            raise TargetError(
                f"No engine found a place on the Ray cluster within {self.patience:.0f} seconds: "
                "are all slots taken?"
            )
        future = next(f for f in self._tasks if f in done)  # the one asked first
        return self._tasks.pop(future), future

    def _result(self, task: _Task, future: "Future[Any]") -> Any:
        """Return a finished task's answer, and mark its worker as idle, or end it if it died."""
        try:
            answer = future.result()
        except WorkerDied:
            self.backend.stop(task.worker)
            self._failed += task.starting
            raise
        except BaseException:
            self._idle.append(task.worker)
            raise
        self._idle.append(task.worker)
        self._failed = 0
        return answer

    def _give_up_error(self, lost: WorkerDied) -> Interrupted:
        return Interrupted(
            f"An engine on the Ray cluster died {ATTEMPTS} times at the same work ({lost}; out of "
            "memory?): fewer engines at a time, as --engine ray:1, need less."
        )
