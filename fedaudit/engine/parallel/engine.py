"""The engine that splits requests among several processes of a Ray cluster.

An engine's answers do not depend on which requests are batched together (docs/engine.md), so it
does not matter how requests are split, or whether some are repeated because a process died.
"""

import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from fedaudit.api.engine import (
    Engine,
    GenerationBatch,
    LogProbabilities,
    PrefixProbabilities,
    PrefixProbabilityRequest,
    TokenRows,
    TokenStatistics,
)
from fedaudit.api.errors import UsageError
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Completion, Target, Tokens
from fedaudit.engine.engine_name import parse
from fedaudit.engine.local import LocalEngine
from fedaudit.engine.parallel.protocol import (
    EngineCall,
    EngineConfig,
    EngineInfo,
    describe,
    execute,
    fingerprint,
    load_and_describe,
)
from fedaudit.engine.parallel.ray_cluster import RayCluster
from fedaudit.engine.parallel.worker_pool import WorkerPool

PIECES = 4
"""Pieces per process into which requests are split: with fewer, processes would wait for the last
one; with more, batches would be small."""

TEXTS = 256
"""The minimum number of texts in a piece to tokenise; smaller pieces do not pay."""


class ParallelEngine:
    """Answers as LocalEngine does, with one LocalEngine in each process of the pool."""

    def __init__(self, pool: WorkerPool, config: EngineConfig, device: str = "auto") -> None:
        self.pool, self.config, self.device = pool, config, device
        [(_, info)] = pool.answers([(load_and_describe, config)])
        self.info: EngineInfo = info
        self.context_length = self.info.context_length
        self.prompt_starts = self.info.prompt_starts
        self.vocabulary_size = self.info.vocabulary_size
        self.end_tokens = self.info.end_tokens

    @cached_property
    def local(self) -> LocalEngine:
        """An engine of the same base in this process, for work that needs the model itself."""
        dtype = self.info.dtype.removeprefix("torch.")  # "auto" may mean another dtype here
        return replace(self.config, device=self.device, dtype=dtype, threads=0).make()

    def tokenize(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokenise without special tokens; offsets are in code points."""
        sizes = [1] * len(texts)
        return self._spread("tokenize", (), sizes, _select(texts), least=TEXTS)

    def decode(self, rows: TokenRows) -> list[str]:
        """Return the text of each row of tokens, as completions are decoded."""
        return self._spread("decode", (), [1] * len(rows), _select(rows), least=TEXTS)

    def best_configurations(self, batches: Sequence[TokenRows]) -> list[tuple[str, float]]:
        """Return, for each batch of texts, the base's best other configuration."""
        return self._spread("best_configurations", (), [1] * len(batches), _select(batches))

    def generate(
        self, target: Target, batch: GenerationBatch, *, progress: Progress = no_progress
    ) -> list[Completion]:
        """Sample every request; raises InputError for a prompt that does not fit the context."""
        sizes = [request.samples for request in batch.requests]
        return self._spread("generate", (target,), sizes, batch.select, progress)

    def score(
        self, target: Target, sequences: TokenRows, *, progress: Progress = no_progress
    ) -> LogProbabilities:
        """Score every sequence; raises InputError for one longer than the context."""
        sizes = [1] * len(sequences)
        return self._spread("score", (target,), sizes, _select(sequences), progress)

    def score_groups(
        self, target: Target, groups: Sequence[TokenRows], *, progress: Progress = no_progress
    ) -> list[LogProbabilities]:
        """Score every sequence of every group; a group is not split between processes."""
        sizes = list(map(len, groups))
        return self._spread("score_groups", (target,), sizes, _select(groups), progress)

    def token_statistics(
        self, target: Target, sequences: TokenRows, *, progress: Progress = no_progress
    ) -> list[TokenStatistics]:
        """Return each token's statistics; raises InputError for one longer than the context."""
        sizes = [1] * len(sequences)
        return self._spread("token_statistics", (target,), sizes, _select(sequences), progress)

    def prefix_probabilities(
        self, target: Target, request: PrefixProbabilityRequest, *, progress: Progress = no_progress
    ) -> list[PrefixProbabilities]:
        """Return exact probabilities; raises InputError for a tokenizer without bytes."""
        sizes = [1] * len(request)
        return self._spread("prefix_probabilities", (target,), sizes, request.select, progress)

    def _spread(
        self,
        method: str,
        target: tuple[Target, ...],
        sizes: Sequence[int],
        select: Callable[[Sequence[int]], Any],
        progress: Progress = no_progress,
        *,
        least: int = 1,
    ) -> list[Any]:
        """Return the answer to each item, in order.

        `select` returns the items at some positions, `sizes` are the items' weights in the
        progress, and a piece has at least `least` items.
        """
        most = min(PIECES * self.pool.size, -(-len(sizes) // least))
        pieces = split_items(len(sizes), most)
        files = self.info.sha256, fingerprint(*target)
        questions = [
            (
                execute,
                EngineCall(
                    config=self.config, method=method, values=(*target, select(piece)), files=files
                ),
            )
            for piece in pieces
        ]
        return merge_answers(pieces, self.pool.answers(questions), sizes, progress)


def _select(items: Sequence[Any]) -> Callable[[Sequence[int]], list[Any]]:
    """Return a function that picks items by their positions."""
    return lambda places: [items[i] for i in places]


def split_items(items: int, most: int) -> list[range]:
    """Return the positions of `items` items in at most `most` pieces, neighbours in different ones.

    Neighbours often have a similar length, so all pieces take about the same time.
    """
    count = min(items, most)
    return [range(first, items, count) for first in range(count)]


def merge_answers(
    pieces: Sequence[Sequence[int]], answers: Any, sizes: Sequence[int], progress: Progress
) -> list[Any]:
    """Return the answers of all pieces in the order of the items; progress is in `sizes`."""
    results: list[Any] = [None] * len(sizes)
    done, total = 0, sum(sizes)
    for number, piece_answers in answers:
        for index, answer in zip(pieces[number], piece_answers, strict=True):
            results[index] = answer
        done += sum(sizes[index] for index in pieces[number])
        progress(done, total)
    return results


def make_engine(
    config: EngineConfig, name: str
) -> "tuple[LocalEngine | ParallelEngine, EngineInfo]":
    """Return the engine named "local" or "ray[:N]", and its description.

    A cluster is released when the engine is garbage-collected or this process ends.
    """
    kind, count = parse(name)
    if kind == "ray":
        engine = _on_ray(config, count)
        return engine, engine.info
    local = config.make()
    return local, describe(local)


def _on_ray(config: EngineConfig, count: int) -> ParallelEngine:
    """Return an engine that releases its cluster when it is garbage-collected."""
    cluster = RayCluster(count)
    try:
        size, cluster.share = cluster.room.shared(count, config.device)
        device = "cuda" if cluster.share.gpus else "cpu"
        worker_config = replace(config, device=device, threads=cluster.share.cpus)
        engine = ParallelEngine(WorkerPool(cluster, size), worker_config, config.device)
    except BaseException:
        cluster.close()
        raise
    weakref.finalize(engine, cluster.close)
    return engine


def local_engine(engine: Engine) -> LocalEngine:
    """Return the engine if it runs in this process, else one of the same base in this process.

    Raises UsageError for an engine that has no model, such as one behind a server.
    """
    local = engine.local if isinstance(engine, ParallelEngine) else engine
    if not isinstance(local, LocalEngine):
        raise UsageError("This needs the model itself: an engine that only answers will not do.")
    return local
