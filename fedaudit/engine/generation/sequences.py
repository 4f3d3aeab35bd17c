"""The samples that are being decoded: their tokens so far, and which of them have ended."""

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
"""Pieces whose samples have all ended, and the tokens of each of their samples."""


@dataclass(frozen=True, slots=True)
class SamplingJob:
    """The requests to sample, and the sampling params."""

    requests: Sequence[GenerationRequest]
    seed: int
    decoding: SamplingParams
    end: Sequence[int]
    stop_strings: StopStrings | None = None
    """If given, a sample ends once it is settled which of these strings it begins with."""


@dataclass(frozen=True, slots=True)
class RunningSequences:
    """The samples that have not ended; each array has one entry per sample."""

    keys: npt.NDArray[np.uint64]
    numbers: Integers
    """The number of each sample within its request."""
    group: Integers
    row: Integers
    """The row of the latest logits from which each sample draws."""
    step: Integers
    """The number of tokens drawn so far."""
    token: Integers
    """The token drawn last."""
    index: Integers
    """The index of each sample among all samples."""

    def select(self, chosen: npt.NDArray[np.bool_]) -> "RunningSequences":
        """Return the chosen samples."""
        return RunningSequences(*(getattr(self, f.name)[chosen] for f in fields(self)))

    def and_(self, samples: "RunningSequences") -> "RunningSequences":
        """Return these samples followed by `samples`."""
        left, right = ([getattr(s, f.name) for f in fields(self)] for s in (self, samples))
        return RunningSequences(*map(np.concatenate, zip(left, right, strict=True)))

    @staticmethod
    def start(
        job: SamplingJob, batch: Sequence[SampleRange], first: int, group: Integers, row: Integers
    ) -> "RunningSequences":
        """Return the samples of a batch before their first draw, in order, indexed from `first`."""
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
    """The tokens of all samples so far, by piece, and the pieces whose samples have all ended."""

    def __init__(self, job: SamplingJob, max_new_tokens: int, samples: int) -> None:
        """Allocate memory for so many samples of `max_new_tokens` tokens."""
        self._job, self._max_new_tokens = job, max_new_tokens
        self._stop = {-1, *job.end}
        self._stop_state = StopState(job.stop_strings) if job.stop_strings else None
        self._pieces: list[SampleRange] = []
        self._starts: list[int] = []
        self._tokens = np.full((samples, max_new_tokens), -1, dtype=np.int32)
        """Tokens (samples, max_new_tokens), -1 after the end of a sample."""
        self._piece = np.zeros(samples, dtype=np.int64)
        self._sample_count = 0
        self._remaining: list[int] = []
        """The number of samples that have not ended, by piece."""
        self._finished: list[int] = []

    def add(self, batch: Sequence[SampleRange]) -> int:
        """Add the samples of further pieces; return the index of the first."""
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
        """Draw the next token of each sample, and return the samples that continue.

        If the logits are a buffer of CUDA graphs, `graphs` are those.
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
        """Yield once all pieces that have ended since the last call, if there are any."""
        finished, self._finished = sorted(self._finished), []
        if finished:
            pieces = [self._pieces[index] for index in finished]
            spans = [
                slice(self._starts[index], self._starts[index] + piece.last - piece.first)
                for index, piece in zip(finished, pieces, strict=True)
            ]
            yield pieces, self._cut(np.concatenate([self._tokens[span] for span in spans]))

    def tokens(self) -> list[list[int]]:
        """Return the tokens of all samples, in order, without end tokens."""
        return self._cut(self._tokens)

    def _cut(self, rows: npt.NDArray[np.int32]) -> list[list[int]]:
        return [list(takewhile(self._goes_on, row)) for row in rows.tolist()]

    def _goes_on(self, token: int) -> bool:
        return token not in self._stop
