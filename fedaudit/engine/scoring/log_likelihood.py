"""Scoring texts: the log-probability of every token given those before it."""

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel

from fedaudit.api.errors import InputError
from fedaudit.engine.batching import padded_length
from fedaudit.engine.generation.sampler import NO_NUMBERS


@torch.inference_mode()
def log_probabilities(
    model: PreTrainedModel, sequences: Sequence[Sequence[int]]
) -> list[list[float]]:
    """Return ln p(token | tokens before it) for every token but the first of each sequence.

    The sequences have one padded length; padding is behind, where causal attention never looks.
    Softmax runs in float32 whatever the model's dtype.
    """
    width = padded_length(max(len(sequence) for sequence in sequences))
    ids = torch.zeros(len(sequences), width, dtype=torch.long)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = torch.tensor(sequence, dtype=torch.long)
    ids = ids.to(model.device)
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
    scores = of_following(logits, ids[:, 1:])
    return [
        row[: max(0, len(sequence) - 1)].tolist()
        for row, sequence in zip(scores.cpu(), sequences, strict=True)
    ]


def of_following(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return ln p of each of `tokens` (rows, length) under its logits (rows, length, vocabulary).

    Log softmax of one entry: its logit less the logsumexp; there is no second tensor of that size.
    """
    chosen = logits.gather(-1, tokens[..., None]).squeeze(-1).float()
    found = chosen - torch.logsumexp(logits.float(), dim=-1)
    if bool(found.isnan().any()):
        raise InputError(NO_NUMBERS)
    return found
