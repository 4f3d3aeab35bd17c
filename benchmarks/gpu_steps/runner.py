"""Which steps there are, in which order, and which of them there is time for."""

import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any

from fedaudit.engine.memory import is_out_of_memory
from gpu_steps.card import card
from gpu_steps.correctness import TOLERANCES, correctness
from gpu_steps.models import NoRoomError, Workbench
from gpu_steps.probing import alone, batched, compiled, long_batches, many, probing
from gpu_steps.profiling import profiled
from gpu_steps.state import Results
from gpu_steps.work import Size
from gpu_steps.workloads import exact_walk, many_adapters, scoring, training

WORKLOADS: Mapping[str, tuple[Callable[..., dict[str, Any]], int]] = {
    "probing": (probing, 10),
    "alone": (alone, 15),
    "batched": (batched, 20),
    "many": (many, 15),
    "profile": (profiled, 15),
    "long": (long_batches, 15),
    "long profile": (partial(profiled, long=True), 15),
    "scoring": (scoring, 15),
    "exact": (exact_walk, 15),
    "training": (training, 20),
    "adapters": (many_adapters, 40),
}
"""Each with the seconds that must be left for it to begin: `adapters` comes last, since it leaves
the model behind."""
LAST = ("compiled", compiled, 60)
"""After all sizes: what takes longest, and may fail where there is no compiler."""
SPARE = 5
"""Seconds that are left for the tables."""


class StepTimeout(BaseException):
    """The time is over while a step runs; no `except Exception` of a library may swallow it."""


@dataclass(frozen=True, slots=True)
class Step:
    """Something to measure, and the seconds that must be left for it to begin."""

    name: str
    work: Callable[[Workbench], dict[str, Any]]
    needs: int


def steps(sizes: Sequence[Size]) -> list[Step]:
    """Return all steps: the card, correctness, the sizes one after the other."""
    found = [Step("card", card, 10)]
    found += [Step(f"correct.{name}", partial(correctness, name=name), 20) for name in TOLERANCES]
    for size in sizes:
        found += [
            Step(f"{size.name}.{name}", partial(work, size=size), need)
            for name, (work, need) in WORKLOADS.items()
        ]
    name, last, need = LAST
    found += [Step(f"{size.name}.{name}", partial(last, size=size), need) for size in sizes]
    return found


def run(
    todo: Sequence[Step],
    bench: Workbench,
    results: Results,
    end: float,
    say: Callable[[str], None],
    *,
    patient: bool = False,
) -> None:
    """Run the steps that are not done, until `end` (of time.monotonic).

    One is not begun with less time left than it needs, but where `patient`. What is under way when
    the time is over begins anew another time.
    """
    for step in todo:
        left = end - SPARE - time.monotonic()
        if results.done(step.name):
            continue
        if left <= 0 or (left < step.needs and not patient):
            say(f"{step.name}: no time left; call again")
            continue
        began = time.monotonic()
        try:
            with time_limit(left):
                found = attempt(step, bench)
        except StepTimeout:
            say(f"{step.name}: not done when the time was over; call again")
            return
        results.keep(step.name, found | {"step_seconds": time.monotonic() - began})
        said = found.get("failed") or found.get("skipped") or "done"
        say(f"{step.name}: {said} ({time.monotonic() - began:.1f} s)")


def attempt(step: Step, bench: Workbench) -> dict[str, Any]:
    """Return what a step found, why it is skipped, or how it failed."""
    try:
        return step.work(bench)
    except NoRoomError as error:
        reason = {"skipped": str(error)}
    except Exception as error:  # the other steps are worth having
        text = (str(error).strip().splitlines() or [""])[0][:300]
        kind = "skipped" if is_out_of_memory(error) else "failed"
        reason = {kind: f"{type(error).__name__}: {text}"}
    bench.clear()
    return reason


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise StepTimeout in the block once the seconds are over."""

    def over(_number: int, _frame: FrameType | None) -> None:
        raise StepTimeout

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
