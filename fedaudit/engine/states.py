"""Hidden states: what the base makes of a prompt, before it makes words of it."""

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel

from fedaudit.engine.batching import by_length, padded


@torch.inference_mode()
def last_states(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    vectors: torch.Tensor | None,
    *,
    rows: int,
    tokens: int,
) -> torch.Tensor:
    """Return the last layer's state at each prompt's last position, float32 (prompts, width).

    `vectors` (prompts, width), where given, are embeddings of one more token behind each prompt,
    one that the vocabulary does not have. Padding goes behind, where a causal model does not look.
    """
    extra = 0 if vectors is None else 1
    width = int(model.config.get_text_config().hidden_size)
    found = torch.zeros(len(prompts), width)
    table = model.get_input_embeddings()
    lengths = [len(prompt) + extra for prompt in prompts]
    if min(lengths, default=1) < 1:
        raise ValueError("A prompt without tokens has no state.")
    for batch in by_length(lengths, tokens):
        for start in range(0, len(batch), rows):
            some = batch[start : start + rows]
            longest = padded(lengths[some[0]])  # the same for all rows of a batch
            ids = torch.zeros(len(some), longest, dtype=torch.long)
            mask = torch.zeros(len(some), longest, dtype=torch.long)
            for row, index in enumerate(some):
                ids[row, : len(prompts[index])] = torch.tensor(list(prompts[index]))
                mask[row, : lengths[index]] = 1
            embedded = table(ids.to(model.device))
            last = mask.sum(dim=1) - 1
            if vectors is not None:
                new = vectors[some].to(embedded.device, embedded.dtype)
                embedded[torch.arange(len(some)), last] = new
            states = model.base_model(
                inputs_embeds=embedded, attention_mask=mask.to(model.device), use_cache=False
            ).last_hidden_state
            found[some] = states[torch.arange(len(some)), last].float().cpu()
    return found
