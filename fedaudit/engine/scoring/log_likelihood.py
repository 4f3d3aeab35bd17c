"""Scoring texts: the log-probability of every token given the tokens before it."""

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel

from fedaudit.api.engine import TokenStatistics
from fedaudit.api.errors import InputError
from fedaudit.engine.batching import padded_length
from fedaudit.engine.generation.sampler import NO_NUMBERS
from fedaudit.engine.padding import right_padded


@torch.inference_mode()
def log_probabilities(
    model: PreTrainedModel, sequences: Sequence[Sequence[int]]
) -> list[list[float]]:
    """Return ln p(token | tokens before it) for every token but the first of each sequence."""
    logits, following = _read(model, sequences)
    scores = of_following(logits, following)
    return [
        row[: max(0, len(sequence) - 1)].tolist()
        for row, sequence in zip(scores.cpu(), sequences, strict=True)
    ]


@torch.inference_mode()
def token_statistics(
    model: PreTrainedModel, sequences: Sequence[Sequence[int]]
) -> list[TokenStatistics]:
    """Return the statistics of every token but the first of each sequence.

    They compare the token's ln p with the distribution over the vocabulary.
    """
    logits, following = _read(model, sequences)
    return [
        _statistics(row[: max(0, len(sequence) - 1)], tokens[: max(0, len(sequence) - 1)])
        for row, tokens, sequence in zip(logits, following, sequences, strict=True)
    ]


def _read(
    model: PreTrainedModel, sequences: Sequence[Sequence[int]]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return logits (rows, length, vocabulary) and the tokens that follow (rows, length).

    All sequences have the same padded length. Padding is on the right, where causal attention
    never looks. The logits have the model's dtype; callers apply softmax in float32.
    """
    width = padded_length(max(len(sequence) for sequence in sequences))
    ids, _ = right_padded(sequences, width, model.device)
    return model(input_ids=ids, use_cache=False).logits[:, :-1], ids[:, 1:]


def _statistics(logits: torch.Tensor, tokens: torch.Tensor) -> TokenStatistics:
    """Return the statistics of one text: logits (length, vocabulary), tokens (length,)."""
    scores = torch.log_softmax(logits.float(), dim=-1)
    if bool(scores.isnan().any()):
        raise InputError(NO_NUMBERS)
    chances = scores.exp()
    mean = torch.linalg.vecdot(chances, scores)
    variance = (chances * (scores - mean[:, None]).square()).sum(-1)
    chosen = scores.gather(-1, tokens[:, None]).squeeze(-1)
    return TokenStatistics(
        log_probability=chosen.tolist(),
        mean=mean.tolist(),
        deviation=variance.sqrt().tolist(),
        first=(chosen >= scores.amax(-1)).tolist() if len(tokens) else [],
    )


def of_following(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return ln p of each of `tokens` (rows, length) under its logits (rows, length, vocabulary).

    ln p is the token's logit minus the logsumexp, so that no second tensor of the logits' size is
    needed for a full log-softmax. Raises InputError for NaN.
    """
    chosen = logits.gather(-1, tokens[..., None]).squeeze(-1).float()
    logprobs = chosen - torch.logsumexp(logits.float(), dim=-1)
    if bool(logprobs.isnan().any()):
        raise InputError(NO_NUMBERS)
    return logprobs
