"""Hidden states of the base after a prompt."""

from collections.abc import Sequence

import torch
from transformers import DynamicCache, PreTrainedModel

from fedaudit.engine.batching import SampleRange, by_length
from fedaudit.engine.compatibility import cache_kwargs
from fedaudit.engine.padding import allows_padding
from fedaudit.engine.scheduler import Capacity
from fedaudit.engine.scoring.shared_prefix import select_rows


@torch.inference_mode()
def last_states(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    vectors: torch.Tensor | None,
    room: Capacity,
) -> torch.Tensor:
    """Return the last layer's state at each prompt's last position, float32 (prompts, width).

    `vectors` (prompts, width), where given, are the input embeddings of one more token at the end
    of each prompt, for tokens outside the vocabulary. The prompts' common prefix is prefilled once.
    All rows of a batch have the same length, so none is padded; a batch that does not fit into
    memory is halved. Raises ValueError for a prompt without tokens.
    """
    extra = 0 if vectors is None else 1
    lengths = [len(prompt) + extra for prompt in prompts]
    if min(lengths, default=1) < 1:
        raise ValueError("A prompt without tokens has no state.")
    output = torch.zeros(len(prompts), int(model.config.get_text_config().hidden_size))
    shared = _shared_length(prompts, extra) if allows_padding(model) else 0
    cache = _beginning(model, prompts[0][:shared], room) if shared else None
    table = model.get_input_embeddings()

    def read(chunk: list[SampleRange]) -> torch.Tensor:
        indices = [piece.index for piece in chunk]
        ids = torch.tensor([list(prompts[index][shared:]) for index in indices], dtype=torch.long)
        embedded = table(ids.to(model.device))
        if vectors is not None:
            new = vectors[indices].to(embedded.device, embedded.dtype)
            embedded = torch.cat([embedded, new[:, None]], dim=1)
        states: torch.Tensor = model.base_model(
            inputs_embeds=embedded,
            **cache_kwargs(model.base_model, _repeat_cache(cache, len(indices)) if cache else None),
            use_cache=cache is not None,
        ).last_hidden_state
        return states[:, -1].float().cpu()

    for batch in by_length([length - shared for length in lengths], room.tokens):
        for group in _group_by_length(batch, lengths, room.rows):
            rows = [SampleRange(index, 0, 1) for index in group]
            for chunk, states in room.memory.run(lengths[group[0]], rows, read):
                output[[piece.index for piece in chunk]] = states
    return output


def _shared_length(prompts: Sequence[Sequence[int]], extra: int) -> int:
    """Return the length of the prompts' common prefix, cut so that each keeps one more token."""
    if len(prompts) < 2:
        return 0
    # All prompts share the common prefix of the lexicographically first and last.
    first, last = min(map(tuple, prompts)), max(map(tuple, prompts))
    most = min(map(len, prompts)) - 1 + extra
    return next((i for i in range(min(most, len(first))) if first[i] != last[i]), most)


def _group_by_length(batch: Sequence[int], lengths: Sequence[int], rows: int) -> list[list[int]]:
    """Return the rows of a batch in groups of equal length, at most `rows` in each."""
    groups = []
    for length in sorted({lengths[index] for index in batch}):
        alike = [index for index in batch if lengths[index] == length]
        groups += [alike[start : start + rows] for start in range(0, len(alike), rows)]
    return groups


def _beginning(model: PreTrainedModel, begin: Sequence[int], room: Capacity) -> DynamicCache:
    """Return the KV cache of the prompts' common prefix."""

    def read(_: list[SampleRange]) -> DynamicCache:
        cache = DynamicCache(config=model.config)
        ids = torch.tensor([list(begin)], device=model.device)
        model.base_model(input_ids=ids, **cache_kwargs(model.base_model, cache), use_cache=True)
        return cache

    [(_, cache)] = room.memory.run(len(begin), [SampleRange(0, 0, 1)], read)
    return cache


def _repeat_cache(cache: DynamicCache, rows: int) -> DynamicCache:
    """Return a cache of `rows` copies of a one-row cache's row."""
    return select_rows(cache, torch.zeros(rows, dtype=torch.long))
