"""Exact probabilities that a continuation begins with a string, computed without sampling.

A walk over all token sequences that spell a string, under the distribution that `sampler` draws
from. Each prompt is prefilled once; branches of all prompts go through the model together, and
each has its own row of the KV cache. Branches that are too unlikely are not followed (branch and
bound); `search` does the bookkeeping.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel

from fedaudit.api.engine import PrefixProbabilities, PrefixProbabilityRequest, TokenRows
from fedaudit.engine.architecture import attention_mask, cache_kwargs, padding_step
from fedaudit.engine.batching import by_length, padded_length
from fedaudit.engine.device import to_device
from fedaudit.engine.exact.search import (
    SearchBranches,
    SearchConfig,
    SearchTotals,
    distribution,
    expand_branches,
)
from fedaudit.engine.exact.token_automaton import Integers
from fedaudit.engine.generation.decoding import prefill
from fedaudit.engine.generation.sampler import probe_key
from fedaudit.engine.scoring import BatchLimits, select_rows

TABLES = 20
"""The number of logit rows that take as much memory as one row of probabilities, of which several
float64 tables exist at once. The allocator reuses tables of 27 MB; tables of 32 MB and more are
newly allocated by the system each time, which took two to three times as long (glibc, 112,000
tokens)."""


@dataclass(frozen=True, slots=True)
class PrefilledRows:
    """Rows that the model has read, with their KV cache."""

    cache: DynamicCache
    mask: torch.Tensor
    """(rows, width)"""
    position: torch.Tensor
    """(rows, 1): the position of the last token."""


@dataclass(frozen=True, slots=True)
class SearchLevel:
    """Branches to read next: their last tokens, and the cached rows that they continue."""

    branches: SearchBranches
    before: PrefilledRows
    rows: Integers
    tokens: Integers
    used: int
    """New tokens so far, including `tokens`."""


@torch.inference_mode()
def prefix_probabilities(
    model: PreTrainedModel,
    request: PrefixProbabilityRequest,
    config: SearchConfig,
    limits: BatchLimits,
) -> Iterator[tuple[list[int], list[PrefixProbabilities]]]:
    """Yield the indices of a batch's prompts, and P(a continuation begins with s) for each prompt.

    s runs over the strings of the request. `least` is the mass that was followed to the end; `most`
    adds the mass of abandoned branches that might have spelt s. All prompts of a batch have the
    same padded length.
    """
    indices = {string: index for index, string in enumerate(config.automaton.strings)}
    columns = np.array([indices[string] for string in request.strings], dtype=np.int64)
    step, new = padding_step(model), config.max_new_tokens
    lengths = list(map(len, request.prompts))
    for batch in by_length(lengths, limits.tokens, step, rows=limits.rows, new=new):
        batch_request = request.select(batch)
        totals = SearchTotals(len(indices), batch_request.trials or [0] * len(batch))
        width = padded_length(lengths[batch[0]]) + new
        room = max(1, min(limits.rows, limits.tokens // width))
        rows = max(1, limits.logits // TABLES)
        BatchSearch(model=model, config=config, totals=totals, room=room, rows=rows).run(
            batch_request
        )
        yield batch, list(totals.probabilities(columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSearch:
    """The search for one batch of prompts of one padded length."""

    model: PreTrainedModel
    config: SearchConfig
    totals: SearchTotals
    room: int
    """Rows that go through the model at once."""
    rows: int
    """Rows whose distributions are in memory at once."""

    def run(self, request: PrefixProbabilityRequest) -> None:
        """Search depth first, so that few caches are in memory at once."""
        roots = SearchBranches.start(
            [probe_key(request.seed, prompt) for prompt in request.prompts]
        )
        levels = list(self._next(*_prefill_prompts(self.model, request.prompts), roots, 0))
        while levels:
            level = levels.pop()
            np.add.at(self.totals.rows, level.branches.prompts, 1)
            levels += self._next(*_read(self.model, level), level.branches, level.used)

    def _next(
        self, read: PrefilledRows, logits: torch.Tensor, branches: SearchBranches, used: int
    ) -> Iterator[SearchLevel]:
        """Yield the branches one token longer, at most `room` at a time.

        `logits` has a row for each of `branches`.
        """
        rows, tokens, longer = list[Integers](), list[Integers](), list[SearchBranches]()
        for start in range(0, len(branches), self.rows):
            chunk = slice(start, start + self.rows)
            table = distribution(logits[chunk], self.config)
            is_last = used + 1 == self.config.max_new_tokens
            row, token, children = expand_branches(
                table, branches[chunk], self.config, self.totals, is_last=is_last
            )
            rows.append(row + start)
            tokens.append(token)
            longer.append(children)
        row, token, all_ = (
            np.concatenate(rows),
            np.concatenate(tokens),
            SearchBranches.joined(longer),
        )
        for start in range(0, len(row), self.room):
            chunk = slice(start, start + self.room)
            yield SearchLevel(all_[chunk], read, row[chunk], token[chunk], used + 1)


def _prefill_prompts(
    model: PreTrainedModel, prompts: TokenRows
) -> tuple[PrefilledRows, torch.Tensor]:
    """Prefill prompts of one padded length; return them, and next-token logits (rows, tokens)."""
    logits, mask, cache = prefill(model, prompts)
    return PrefilledRows(cache, mask, mask.sum(-1, keepdim=True) - 1), logits


def _read(model: PreTrainedModel, level: SearchLevel) -> tuple[PrefilledRows, torch.Tensor]:
    """Read the last token of every branch after its cached row; return as `_prefill_prompts`."""
    before = level.before
    rows = to_device(level.rows, model.device)
    cache = select_rows(before.cache, rows)
    mask = torch.nn.functional.pad(before.mask[rows], (0, 1), value=1)
    position = before.position[rows] + 1
    logits = model(
        input_ids=to_device(level.tokens, model.device)[:, None],
        attention_mask=attention_mask(model, mask),
        position_ids=position,
        **cache_kwargs(model, cache),
        use_cache=True,
    ).logits[:, -1]
    return PrefilledRows(cache, mask, position), logits


def scatter_probabilities(
    probabilities: PrefixProbabilities, prompt: Sequence[int], trials: Sequence[int], seed: int
) -> list[PrefixProbabilities]:
    """Return the probabilities for each query; `trials` are the draws that each query asked for.

    Draws that completed a string are assigned to queries at random, in proportion to their trials
    (multinomial): the parts of a Poisson count split in this way are independent Poisson counts.
    The rows that the model read are attributed to the first query.
    """
    if len(trials) == 1:
        return [probabilities]
    counts = np.asarray(trials, dtype=np.float64)
    shares = counts / counts.sum() if counts.any() else np.full(len(counts), 1 / len(counts))
    lots = np.random.default_rng(probe_key(seed, prompt))
    draws = lots.multinomial(probabilities.drawn, shares)
    return [
        replace(probabilities, drawn=drawn, rows=0 if number else probabilities.rows)
        for number, drawn in enumerate(draws.T)
    ]
