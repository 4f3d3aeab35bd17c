"""The engine of several processes, here or on a Ray cluster: each answers a part of the questions.

An engine's answers do not depend on the company of a question (docs/engine.md), so it matters to
no answer how questions are spread, nor how often one is asked because an engine has died.
"""

import os
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch

from fedaudit.api.errors import UsageError
from fedaudit.api.plugin import PrefixProbabilities, Progress, no_progress
from fedaudit.api.records import Completion, GenerationRequest, SamplingParams, Target, Tokens
from fedaudit.engine.loading import loader
from fedaudit.engine.local import LocalEngine
from fedaudit.engine.parallel import ray_cluster
from fedaudit.engine.parallel.process_pool import ProcessBackend
from fedaudit.engine.parallel.protocol import (
    EngineCall,
    EngineConfig,
    EngineInfo,
    describe,
    execute,
    fingerprint,
    load_and_describe,
)
from fedaudit.engine.parallel.ray_cluster import RayCluster, ResourceShare
from fedaudit.engine.parallel.worker_pool import WorkerPool

PIECES = 4
"""Pieces that each engine gets of what is asked at once: fewer would leave some waiting for the
last, more would make batches small."""

TEXTS = 256
"""Texts that a piece has at least when it is only tokenised, which is no work for several."""


class RayBackend:
    """The engines of a cluster: a question is a function and what it is given there."""

    where = "on the Ray cluster"
    fewer = "--engine ray:1"

    def __init__(self, rays: RayCluster, share: ResourceShare) -> None:
        self.rays, self.share = rays, share

    def start(self) -> tuple[int, "Future[Any]"]:
        """Start a process; its engine is loaded at its first question."""
        return self.rays.start(self.share)

    def ask(self, worker: int, question: tuple[Callable[[Any], Any], Any]) -> "Future[Any]":
        """Ask the engine in a process."""
        return self.rays.ask(worker, *question)

    def stop(self, worker: int) -> None:
        """End a process."""
        self.rays.stop(worker)


class ParallelEngine:
    """Answers as LocalEngine does, by as many of them as the crew has room for."""

    def __init__(self, crew: WorkerPool, order: EngineConfig, device: str = "auto") -> None:
        self.crew, self.order, self.device = crew, order, device
        [(_, found)] = crew.answers([(load_and_describe, order)])
        self.facts: EngineInfo = found
        self.context_length = self.facts.context_length
        self.prompt_starts = self.facts.prompt_starts

    @cached_property
    def local(self) -> LocalEngine:
        """An engine of the same base in this process, for what needs the model itself."""
        dtype = self.facts.dtype.removeprefix("torch.")  # what "auto" is here may be another
        return replace(self.order, device=self.device, dtype=dtype, threads=0).make()

    def tokenize(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokenise without special tokens; offsets are code points."""
        return self._spread(
            "tokenize", None, texts, lambda some: ([texts[i] for i in some],), least=TEXTS
        )

    def generate(
        self,
        target: Target,
        requests: Sequence[GenerationRequest],
        *,
        seed: int,
        decoding: SamplingParams = SamplingParams(),
        strings: Collection[str] | None = None,
        progress: Progress = no_progress,
    ) -> list[Completion]:
        """Continue every probe; raises InputError for one that does not fit the context."""
        return self._spread(
            "generate",
            target,
            requests,
            lambda some: ([requests[i] for i in some],),
            sizes=[request.samples for request in requests],
            progress=progress,
            seed=seed,
            decoding=decoding,
            strings=strings,
        )

    def score(
        self,
        target: Target,
        sequences: Sequence[Sequence[int]],
        *,
        progress: Progress = no_progress,
    ) -> list[list[float]]:
        """Score every sequence; raises InputError for one that does not fit the context."""
        return self._spread(
            "score",
            target,
            sequences,
            lambda some: ([sequences[i] for i in some],),
            progress=progress,
        )

    def scores(
        self, targets: Sequence[Target], sequences: Sequence[Sequence[int]]
    ) -> list[list[list[float]]]:
        """Score every sequence under every target, one after the other."""
        return [self.score(target, sequences) for target in targets]

    def score_groups(
        self,
        target: Target,
        groups: Sequence[Sequence[Sequence[int]]],
        *,
        progress: Progress = no_progress,
    ) -> list[list[list[float]]]:
        """Score every sequence of every group; a group keeps together."""
        return self._spread(
            "score_groups",
            target,
            groups,
            lambda some: ([groups[i] for i in some],),
            sizes=[len(group) for group in groups],
            progress=progress,
        )

    def prefix_probabilities(
        self,
        target: Target,
        prompts: Sequence[Sequence[int]],
        strings: Sequence[str],
        *,
        new: int,
        decoding: SamplingParams = SamplingParams(),
        threshold: float = 4e-3,
        trials: Sequence[int] = (),
        seed: int = 0,
        progress: Progress = no_progress,
    ) -> list[PrefixProbabilities]:
        """Walk all ways to spell the strings; raises InputError for a tokenizer without bytes."""
        return self._spread(
            "prefix_probabilities",
            target,
            prompts,
            lambda some: ([prompts[i] for i in some], strings),
            each={"trials": trials} if trials else {},
            progress=progress,
            new=new,
            decoding=decoding,
            threshold=threshold,
            seed=seed,
        )

    def _spread(
        self,
        method: str,
        target: Target | None,
        items: Sequence[Any],
        values: Callable[[Sequence[int]], tuple[Any, ...]],
        *,
        least: int = 1,
        sizes: Sequence[int] = (),
        each: Mapping[str, Sequence[Any]] = {},
        progress: Progress = no_progress,
        **named: Any,
    ) -> list[Any]:
        """Return every item's answer, in order; `values` and `each` are what a piece is given."""
        most = min(PIECES * self.crew.size, -(-len(items) // least))
        parts = split_items(len(items), most)
        files = (self.facts.sha256, fingerprint(target))
        of_target = (target,) if target else ()
        questions = [
            (
                execute,
                EngineCall(
                    order=self.order,
                    method=method,
                    values=(*of_target, *values(some)),
                    named=named | {name: [one[i] for i in some] for name, one in each.items()},
                    files=files,
                ),
            )
            for some in parts
        ]
        return merge_answers(
            parts, self.crew.answers(questions), sizes or [1] * len(items), progress
        )


def split_items(items: int, most: int) -> list[range]:
    """Return the places of `items` in at most `most` pieces, neighbours apart.

    Neighbours are often alike, in length too: so pieces are about as much work as each other.
    """
    count = min(items, most)
    return [range(first, items, count) for first in range(count)]


def merge_answers(
    parts: Sequence[Sequence[int]], answers: Any, sizes: Sequence[int], progress: Progress
) -> list[Any]:
    """Return the answers of all parts in the order of the items; `sizes` are for the progress."""
    found: list[Any] = [None] * len(sizes)
    done, total = 0, sum(sizes)
    for number, several in answers:
        for place, one in zip(parts[number], several, strict=True):
            found[place] = one
        done += sum(sizes[place] for place in parts[number])
        progress(done, total)
    return found


def make_engine(
    order: EngineConfig, name: str
) -> "tuple[LocalEngine | ParallelEngine, EngineInfo]":
    """Return the engine that `name` means, "local[:N]" or "ray[:N]", and what is known of it.

    Processes end, and a cluster is given back, when nobody has the engine any more or this process
    ends.
    """
    if children := ray_cluster.requested_processes(name):
        made = _among_children(order, children)
    elif (count := ray_cluster.requested_engines(name)) is not None:
        made = _on_ray(order, count)
    else:
        here = order.make()
        return here, describe(here)
    return made, made.facts


def _among_children(order: EngineConfig, count: int) -> ParallelEngine:
    """Return an engine of `count` processes; raises UsageError where that is no use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if count > (cores or 1):
        raise UsageError(f"--engine local:{count} needs as many cores; there are {cores}.")
    if loader.device_for(order.device).type != "cpu":
        raise UsageError("--engine local:N is for CPUs: one engine uses a whole GPU.")
    staff, threads = ProcessBackend(), max(1, torch.get_num_threads() // count)
    order = replace(order, device="cpu", threads=threads)
    return _made(staff, WorkerPool(staff, count), order, "cpu")


def _on_ray(order: EngineConfig, count: int) -> ParallelEngine:
    rays = RayCluster(count)
    try:
        size, share = rays.room.shared(count, order.device)
    except BaseException:
        rays.close()
        raise
    there = replace(order, device="cuda" if share.gpus else "cpu", threads=share.cpus)
    return _made(rays, WorkerPool(RayBackend(rays, share), size), there, order.device)


def _made(
    held: "ProcessBackend | RayCluster", crew: WorkerPool, order: EngineConfig, device: str
) -> ParallelEngine:
    """Return an engine that lets go of what it holds in the end."""
    try:
        made = ParallelEngine(crew, order, device)
    except BaseException:
        held.close()
        raise
    weakref.finalize(made, held.close)
    return made


def local_engine(engine: "LocalEngine | ParallelEngine") -> LocalEngine:
    """Return the engine itself where it is in this process, else another of the same base here."""
    return engine if isinstance(engine, LocalEngine) else engine.local
