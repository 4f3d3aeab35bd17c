"""Hidden states of the base after a prompt."""

from collections.abc import Sequence

import torch
from transformers import DynamicCache, PreTrainedModel

from fedaudit.engine.architecture import allows_padding, cache_kwargs
from fedaudit.engine.batching import SampleRange, by_length, common_length
from fedaudit.engine.scheduler import Capacity
from fedaudit.engine.scoring import select_rows


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
    shared = 0
    if len(prompts) > 1 and allows_padding(model):  # each prompt keeps one more token
        shared = min(common_length(prompts), min(lengths) - 1)
    cache = _beginning(model, prompts[0][:shared], room) if shared else None
    table = model.get_input_embeddings()

    def read(chunk: list[SampleRange]) -> torch.Tensor:
        indices = [piece.index for piece in chunk]
        ids = torch.tensor([list(prompts[index][shared:]) for index in indices], dtype=torch.long)
        embedded = table(ids.to(model.device))
        if vectors is not None:
            new = vectors[indices].to(embedded.device, embedded.dtype)
            embedded = torch.cat([embedded, new[:, None]], dim=1)
        zeros = torch.zeros(len(indices), dtype=torch.long)  # each has the one row of the cache
        states: torch.Tensor = model.base_model(
            inputs_embeds=embedded,
            **cache_kwargs(model.base_model, select_rows(cache, zeros) if cache else None),
            use_cache=cache is not None,
        ).last_hidden_state
        return states[:, -1].float().cpu()

    rests = [length - shared for length in lengths]
    for batch in by_length(rests, room.tokens, step=1, rows=room.rows):
        rows = [SampleRange(index, 0, 1) for index in batch]
        for chunk, states in room.memory.run(lengths[batch[0]], rows, read):
            output[[piece.index for piece in chunk]] = states
    return output


def _beginning(model: PreTrainedModel, begin: Sequence[int], room: Capacity) -> DynamicCache:
    """Return the KV cache of the prompts' common prefix."""

    def read(_: list[SampleRange]) -> DynamicCache:
        cache = DynamicCache(config=model.config)
        ids = torch.tensor([list(begin)], device=model.device)
        model.base_model(input_ids=ids, **cache_kwargs(model.base_model, cache), use_cache=True)
        return cache

    [(_, cache)] = room.memory.run(len(begin), [SampleRange(0, 0, 1)], read)
    return cache
