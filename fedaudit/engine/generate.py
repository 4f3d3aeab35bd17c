"""Continuing prompts: each prompt is read once, however many samples it asks for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from transformers import DynamicCache, PreTrainedModel

from fedaudit.engine import grouped
from fedaudit.engine.batching import Piece, padded
from fedaudit.engine.grouped import Integers
from fedaudit.engine.sampling import draw, probe_key, uniforms
from fedaudit.records import Decoding, Probe

Kept = Callable[[torch.Tensor], None]

ENTRIES = 256
"""How many drawn tokens the samples that share their prompt's keys may have together."""


class Rows(Protocol):
    """What goes through the model once the prompts were read."""

    def grow(
        self, group: Integers, row: Integers, tokens: Integers
    ) -> tuple[torch.Tensor, Integers]:
        """Let each sample read its token; return logits, and which row of them is its own.

        `row` is the row that the sample drew from (at first, its prompt's), `group` its group.
        """
        ...


@dataclass
class Samples:
    """The samples of a batch that have not ended, and what all have drawn."""

    keys: npt.NDArray[np.uint64]
    numbers: Integers
    """Which sample of its probe each is."""
    group: Integers
    row: Integers
    """Row of the last logits that each draws from."""
    drawn: Integers
    """Tokens (all samples, new), -1 where a sample has ended."""
    index: Integers
    """Row in `drawn` of each."""

    def draw(self, logits: torch.Tensor, decoding: Decoding, step: int) -> Integers:
        """Draw the next token of each, and note it."""
        number = uniforms(self.keys, self.numbers, step)
        tokens: Integers = draw(logits, number, decoding, self.row).cpu().numpy()
        self.drawn[self.index, step] = tokens
        return tokens

    def leave(self, stay: npt.NDArray[np.bool_]) -> None:
        """Let all but those of `stay` go."""
        for name in ("keys", "numbers", "group", "row", "index"):
            setattr(self, name, getattr(self, name)[stay])


@torch.inference_mode()
def continuations(
    model: PreTrainedModel,
    probes: Sequence[Probe],
    batch: Sequence[Piece],
    *,
    seed: int,
    decoding: Decoding,
    end: Sequence[int],
    kept: Kept = lambda rows: None,
) -> list[list[int]]:
    """Return the new tokens of every sample in `batch`, in order, up to an `end` token.

    All prompts of the batch have one padded length. Prefill runs over the prompts, (prompts,
    length), decoding over what samples have drawn. `kept` is told, whenever the rows change, which
    of the rows before (the prompts at first) each goes on from, in order.
    """
    new = probes[batch[0].index].max_new_tokens
    sizes = [piece.last - piece.first for piece in batch]
    group, owner = grouped.grouped(sizes, max(1, ENTRIES // new))
    samples = _samples(probes, batch, seed, group, owner)
    logits, mask, cache = _read(model, [probes[piece.index].prompt for piece in batch])
    rows: Rows = Copies(model, cache, mask, kept)
    if grouped.fits(model):
        room = int(np.bincount(group).max()) * (new - 1)
        rows = grouped.Branches(model, grouped.Groups(cache, mask, owner, room), kept)
    for step in range(new):
        tokens = samples.draw(logits, decoding, step)
        stay = ~np.isin(tokens, list(end))
        if step == new - 1 or not stay.any():
            break
        samples.leave(stay)
        logits, samples.row = rows.grow(samples.group, samples.row, tokens[stay])
    stop = {-1, *end}
    return [_until(row, stop) for row in samples.drawn.tolist()]


def _samples(
    probes: Sequence[Probe],
    batch: Sequence[Piece],
    seed: int,
    group: Integers,
    owner: Integers,
) -> Samples:
    """Return all samples of a batch, before the first has drawn."""
    sizes = [piece.last - piece.first for piece in batch]
    keys = [probe_key(seed, probes[piece.index].prompt) for piece in batch]
    return Samples(
        keys=np.repeat(np.array(keys, dtype=np.uint64), sizes),
        numbers=np.concatenate([np.arange(piece.first, piece.last) for piece in batch]),
        group=group,
        row=owner[group],
        drawn=np.full((len(group), probes[batch[0].index].max_new_tokens), -1),
        index=np.arange(len(group)),
    )


def _read(
    model: PreTrainedModel, prompts: Sequence[Sequence[int]]
) -> tuple[torch.Tensor, torch.Tensor, DynamicCache]:
    """Return what follows each prompt (prompts, vocabulary), the mask, and what is remembered."""
    ids, mask = left_padded(prompts, padded(len(prompts[0])), model.device)
    cache = DynamicCache(config=model.config)
    output = model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=(mask.cumsum(-1) - 1).clamp(min=0),
        past_key_values=cache,
        use_cache=True,
        # By index, which copies the states of the last position. A slice of them (`1`) is not
        # contiguous, and torch then multiplies it by a copy of the matrix for every prompt.
        logits_to_keep=torch.tensor([ids.shape[1] - 1], device=ids.device),
    )
    return output.logits[:, -1], mask, cache


class Copies:
    """Each sample a row with a copy of its prompt's keys: the way for any kind of model.

    Rows of samples that have ended leave the batch once they are a quarter of it.
    """

    def __init__(
        self, model: PreTrainedModel, cache: DynamicCache, mask: torch.Tensor, kept: Kept
    ) -> None:
        self._model, self._cache, self._mask, self._kept = model, cache, mask, kept
        self._position = mask.sum(-1, keepdim=True) - 1
        self._prompts = True

    def grow(
        self, group: Integers, row: Integers, tokens: Integers
    ) -> tuple[torch.Tensor, Integers]:
        """Let each sample read its token; return logits, and which row of them is its own."""
        if self._prompts or 4 * len(row) <= 3 * len(self._mask):
            stay = torch.as_tensor(row, device=self._mask.device)
            self._cache.batch_select_indices(stay)
            self._mask, self._position = self._mask[stay], self._position[stay]
            self._kept(stay)
            row, self._prompts = np.arange(len(row)), False
        self._mask = torch.nn.functional.pad(self._mask, (0, 1), value=1)
        self._position = self._position + 1
        ids = torch.zeros(len(self._mask), 1, dtype=torch.long)
        ids[row, 0] = torch.as_tensor(tokens)
        logits = self._model(
            input_ids=ids.to(self._mask.device),
            attention_mask=self._mask,
            position_ids=self._position,
            past_key_values=self._cache,
            use_cache=True,
        ).logits
        return logits[:, -1], row


def left_padded(
    prompts: Sequence[Sequence[int]], width: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return token ids and attention mask, (prompts, width), with the padding ahead."""
    ids = torch.zeros(len(prompts), width, dtype=torch.long)
    mask = torch.zeros(len(prompts), width, dtype=torch.long)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) :] = torch.tensor(prompt, dtype=torch.long)
        mask[row, width - len(prompt) :] = 1
    return ids.to(device), mask.to(device)


def _until(tokens: list[int], stop: set[int]) -> list[int]:
    kept = []
    for token in tokens:
        if token in stop:
            break
        kept.append(token)
    return kept
