"""Samples that are being drawn: what each says next, and which have ended."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import takewhile

import numpy as np
import numpy.typing as npt
import torch

from fedaudit.api.records import GenerationRequest, SamplingParams
from fedaudit.engine.batching import SampleRange
from fedaudit.engine.generation.cuda_graphs import CudaGraphs
from fedaudit.engine.generation.kv_cache import Integers
from fedaudit.engine.generation.sampler import draw_to_host, probe_key, uniforms
from fedaudit.engine.generation.stopping import StopState, StopStrings

Answered = tuple[list[SampleRange], list[list[int]]]
"""Pieces of which all samples have ended, and the tokens that each of their samples drew."""


@dataclass(frozen=True, slots=True)
class SamplingJob:
    """What samples are drawn from, and how."""

    requests: Sequence[GenerationRequest]
    seed: int
    decoding: SamplingParams
    end: Sequence[int]
    stop_strings: StopStrings | None = None
    """If given, only which of these strings a sample begins with counts."""


@dataclass(frozen=True, slots=True)
class RunningSequences:
    """Samples that have not ended, one entry of each array for each."""

    keys: npt.NDArray[np.uint64]
    numbers: Integers
    """Which sample of its request each is."""
    group: Integers
    row: Integers
    """Row of the last logits that each draws from."""
    step: Integers
    """How many tokens each has drawn."""
    token: Integers
    """The last of them."""
    index: Integers
    """Which of all samples each is."""

    def select(self, chosen: npt.NDArray[np.bool_]) -> "RunningSequences":
        """Return those of `chosen`."""
        return RunningSequences(*(getattr(self, f.name)[chosen] for f in fields(self)))

    def and_(self, samples: "RunningSequences") -> "RunningSequences":
        """Return these, and `samples` behind them."""
        left, right = ([getattr(s, f.name) for f in fields(self)] for s in (self, samples))
        return RunningSequences(*map(np.concatenate, zip(left, right, strict=True)))

    @staticmethod
    def start(
        job: SamplingJob, batch: Sequence[SampleRange], first: int, group: Integers, row: Integers
    ) -> "RunningSequences":
        """Return all samples of a batch before their first draw, in order, counted from `first`."""
        sizes = [piece.last - piece.first for piece in batch]
        keys = [probe_key(job.seed, job.requests[piece.index].prompt) for piece in batch]
        return RunningSequences(
            keys=np.repeat(np.array(keys, dtype=np.uint64), sizes),
            numbers=np.concatenate([np.arange(piece.first, piece.last) for piece in batch]),
            group=group.copy(),
            row=row.copy(),
            step=np.zeros(len(group), dtype=np.int64),
            token=np.zeros(len(group), dtype=np.int64),
            index=first + np.arange(len(group)),
        )


class OutputBuffer:
    """What all samples have drawn so far, piece by piece, and of which pieces all have ended."""

    def __init__(self, job: SamplingJob, max_new_tokens: int, samples: int) -> None:
        """Make room for so many samples of `max_new_tokens` tokens."""
        self._job, self._max_new_tokens = job, max_new_tokens
        self._stop = {-1, *job.end}
        self._stop_state = StopState(job.stop_strings) if job.stop_strings else None
        self._pieces: list[SampleRange] = []
        self._starts: list[int] = []
        self._tokens = np.full((samples, max_new_tokens), -1, dtype=np.int32)
        """Tokens (all samples, new), -1 where a sample has ended."""
        self._piece = np.zeros(samples, dtype=np.int64)
        self._sample_count = 0
        self._remaining: list[int] = []
        """Samples that have not ended, by piece."""
        self._finished: list[int] = []

    def add(self, batch: Sequence[SampleRange]) -> int:
        """Begin the samples of further pieces; return the number of the first."""
        first = self._sample_count
        sizes = [piece.last - piece.first for piece in batch]
        self._sample_count += sum(sizes)
        self._starts += list(first + np.cumsum([0, *sizes[:-1]]))
        places = np.repeat(np.arange(len(batch)) + len(self._pieces), sizes)
        self._piece[first : self._sample_count] = places
        self._pieces += batch
        self._remaining += sizes
        return first

    def draw(
        self, samples: RunningSequences, logits: torch.Tensor, graphs: CudaGraphs | None = None
    ) -> RunningSequences:
        """Draw the next token of each, and return those samples that go on.

        `graphs` are those whose buffer the logits are, if any.
        """
        number = uniforms(samples.keys, samples.numbers, samples.step)
        decoding = self._job.decoding
        tokens: Integers = draw_to_host(logits, number, decoding, samples.row, graphs)
        self._tokens[samples.index, samples.step] = tokens
        stay = ~np.isin(tokens, list(self._job.end)) & (samples.step < self._max_new_tokens - 1)
        if self._stop_state:
            stay &= self._stop_state.open(samples.index, tokens)
        finished = self._piece[samples.index[~stay]]
        for piece, count in zip(*np.unique(finished, return_counts=True), strict=True):
            self._remaining[piece] -= int(count)
            if not self._remaining[piece]:
                self._finished.append(int(piece))
        samples.step[:] += 1
        samples.token[:] = tokens
        return samples.select(stay)

    def take_finished(self) -> Iterator[Answered]:
        """Yield the pieces that have ended since the last time, if any, all at once."""
        finished, self._finished = sorted(self._finished), []
        if finished:
            pieces = [self._pieces[index] for index in finished]
            spans = [
                slice(self._starts[index], self._starts[index] + piece.last - piece.first)
                for index, piece in zip(finished, pieces, strict=True)
            ]
            yield pieces, self._cut(np.concatenate([self._tokens[span] for span in spans]))

    def tokens(self) -> list[list[int]]:
        """Return what all samples have drawn, in order, up to what ended them."""
        return self._cut(self._tokens)

    def _cut(self, rows: npt.NDArray[np.int32]) -> list[list[int]]:
        return [list(takewhile(self._goes_on, row)) for row in rows.tolist()]

    def _goes_on(self, token: int) -> bool:
        return token not in self._stop
