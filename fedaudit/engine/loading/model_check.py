"""The engine's assumptions about a model, tested on a few tokens after loading.

1. No token attends to later tokens, since a score would otherwise depend on what it scores.
2. Prompts that are prefilled together and continued from the KV cache get the same logits as each
   prompt alone: with left padding if possible, else only together with prompts of the same length.

Both are measured, whatever the model's type and configuration claim.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from transformers import PreTrainedModel

from fedaudit.api.errors import InputError
from fedaudit.engine import scoring
from fedaudit.engine.architecture import forbid_padding
from fedaudit.engine.device import few_threads, is_small
from fedaudit.engine.generation.decoding import CopiedPrefixRows, prefill
from fedaudit.engine.loading.size_bounds import check_forward
from fedaudit.system.failures import first_line

T = TypeVar("T")

LENGTH = 14
"""Tokens per row, which are padded to 16; half of a row is the shared prefix of two texts."""
PROMPTS = 5
STRIDE = 7919
"""The distance between the token ids tried, a prime so that ids do not repeat within a row."""

TOLERANCES = {torch.float32: 1e-3, torch.float64: 1e-3, torch.float16: 0.03}
"""The tolerated difference of logits, in units of their spread. Rounding made a difference of
2.5e-5 in float32, 0.003 in float16 and 0.014 in bfloat16; models that must be refused made one of
0.08 (random models of two to six layers; the maximum in float32, else the median). Deeper models
accumulate more rounding."""
COARSE = 0.1
"""The tolerance for bfloat16 and for weights of fewer bits."""

LARGEST = 1e4
"""Logits are clamped to this, above any meaningful value."""

LIMITS = scoring.BatchLimits(rows=PROMPTS, tokens=2**12, logits=2**12)


def check(model: PreTrainedModel, folder: Path, context: int) -> None:
    """Raise InputError for a model in which a token attends to later tokens.

    Raise it also for a model that does not continue prompts from a KV cache as it does without one.
    A model that does so only without padding is marked by `architecture.forbid_padding`; `context`
    is the context length in tokens.
    """
    kind = f"this {model.config.model_type} model"
    half = max(1, min(LENGTH, context - 1) // 2)
    first, second = _rows(model, 2 * half)
    mixed = first[:half] + second[half:]
    with torch.no_grad(), few_threads(small=is_small(model)):
        check_forward(model, folder, torch.tensor([first, second]))
        plain = _attempt(
            lambda: _logits(model, [first, second, mixed]),
            f"{folder} cannot be audited: {kind} cannot read a few tokens",
        )
        if bool(plain.isnan().any()):
            return  # nothing to compare; every later forward pass is checked for NaN
        if not _close(model, plain[2, :half], plain[0, :half]):
            raise InputError(
                f"{folder} is not a causal language model: {kind} sees the tokens behind the one "
                f"that "
                "it predicts, so that a score would contain its answer (see is_decoder, is_causal "
                "and their like in its config.json)."
            )
        if _continues_padded(model, [first, second], plain):
            return
        forbid_padding(model)
        same = _attempt(
            lambda: _continues_unpadded(model, [first, second], plain),
            f"{folder} cannot be audited: {kind} cannot continue prompts from a cache of its own",
        )
        if not same:
            raise InputError(
                f"{folder} cannot be audited: {kind} answers a prompt otherwise once it is "
                "continued from its cache, even together with prompts of the same length alone."
            )


def _attempt(do: Callable[[], T], problem: str) -> T:
    """Return do(); raises InputError, with `problem`, for any exception in the model's code."""
    try:
        return do()
    except Exception as error:
        reason = first_line(error).rstrip(".")
        raise InputError(f"{problem} ({type(error).__name__}: {reason}).") from None


def _rows(model: PreTrainedModel, length: int) -> list[list[int]]:
    """Return two rows of token ids from the middle of the vocabulary, where few are special."""
    embeddings = model.get_input_embeddings()
    size = int(
        getattr(embeddings, "num_embeddings", 0) or model.config.get_text_config().vocab_size
    )
    tokens = [size // 4 + STRIDE * i % max(1, size // 2) for i in range(2 * length)]
    return [tokens[:length], tokens[length:]]


def _logits(model: PreTrainedModel, rows: list[list[int]]) -> torch.Tensor:
    """Return the logits (rows, length, vocabulary) of rows of the same length, without padding."""
    ids = torch.tensor(rows, device=model.device)
    logits: torch.Tensor = model(input_ids=ids, use_cache=False).logits
    return logits


def _continues_padded(model: PreTrainedModel, rows: list[list[int]], plain: torch.Tensor) -> bool:
    """Tell whether padded prompts and groups of texts get the same logits with a KV cache."""
    try:
        return _continues_prompts(model, rows, plain) and _continues_groups(model, rows, plain)
    except Exception:  # the model's code may raise anything
        return False


def _continues_unpadded(model: PreTrainedModel, rows: list[list[int]], plain: torch.Tensor) -> bool:
    """Tell whether prompts of one length, decoded token by token, get the same logits as alone."""
    length, chosen = len(rows[0]), np.array([1, 0, 1])
    for count in sorted({max(1, length // 2), length - 1}):
        logits, mask, cache = prefill(model, [row[:count] for row in rows])
        if not _close(model, logits, plain[:2, count - 1]):
            return False
        batch = CopiedPrefixRows(model, lambda rows: None)
        batch.join(cache, mask, np.arange(2))
        places = chosen
        for position in range(count, length):
            tokens = np.array([rows[row][position] for row in chosen])
            logits, places = batch.grow(chosen, places, tokens)
            if not _close(model, logits[places], plain[chosen, position]):
                return False
    return True


def _continues_prompts(model: PreTrainedModel, rows: list[list[int]], plain: torch.Tensor) -> bool:
    """Tell whether prompts of several lengths, prefilled together, get the same logits as alone."""
    length = len(rows[0])
    prompts = [(i % 2, max(1, length - 1 - i)) for i in range(PROMPTS)]
    row, count = (torch.tensor(column) for column in zip(*prompts, strict=True))
    logits, mask, cache = prefill(model, [rows[r][:n] for r, n in prompts])
    if not _close(model, logits, plain[row, count - 1]):
        return False
    batch = CopiedPrefixRows(model, lambda rows: None)
    batch.join(cache, mask, np.arange(PROMPTS))
    chosen = np.array([*reversed(range(PROMPTS)), 0, 1])
    tokens = np.array([rows[r][n] for r, n in (prompts[index] for index in chosen)])
    logits, places = batch.grow(chosen, chosen, tokens)
    return _close(model, logits[places], plain[row[chosen], count[chosen]])


def _continues_groups(model: PreTrainedModel, rows: list[list[int]], plain: torch.Tensor) -> bool:
    """Tell whether texts with a shared, cached prefix get the same scores as each text alone."""
    (first, second), half = rows, len(rows[0]) // 2
    if half < 2:
        return True
    texts = [first, first[:half] + second[half:]]
    scored = scoring.group_log_probabilities(model, [texts], {0: tuple(first[:half])}, LIMITS)
    scores = {
        m.index: row for members, rows in scored for m, row in zip(members, rows, strict=True)
    }
    logits = plain[[0, 2], :-1].float()
    following = torch.tensor(texts, device=logits.device)[:, 1:, None]
    expected = logits.log_softmax(-1).gather(-1, following)[..., 0]
    scores_of_engine = torch.tensor([scores[0], scores[1]], device=logits.device)
    behind = slice(half - 1, None)  # earlier scores do not involve the cache
    errors = (scores_of_engine - expected).abs()
    return _within(model, errors[:, behind], _spread(logits)[:, behind])


def _close(model: PreTrainedModel, logits_of_engine: torch.Tensor, expected: torch.Tensor) -> bool:
    """Tell whether two tensors of logits (positions, vocabulary) are equal up to rounding."""
    logits_of_engine, expected = _centred(logits_of_engine), _centred(expected)
    return _within(model, (logits_of_engine - expected).abs().median(-1).values, _spread(expected))


def _centred(logits: torch.Tensor) -> torch.Tensor:
    """Return logits minus their median, after clamping, since models mask tokens with -inf."""
    numbers = logits.float().clamp(-LARGEST, LARGEST)
    return numbers - numbers.median(-1, keepdim=True).values


def _spread(logits: torch.Tensor) -> torch.Tensor:
    """Return the spread of the logits at each position: their median absolute deviation."""
    return _centred(logits).abs().median(-1).values


def _within(model: PreTrainedModel, errors: torch.Tensor, spread: torch.Tensor) -> bool:
    """Tell whether errors, in units of the spread, can be rounding errors of the model's dtype.

    In float32 and float64 the largest error decides. In coarser dtypes the median decides, since
    rounding may send a token to another expert in a mixture of experts.
    """
    tolerance = max(TOLERANCES.get(parameter.dtype, COARSE) for parameter in model.parameters())
    excess = (errors - tolerance * spread)[spread > 0].nan_to_num(nan=torch.inf)
    if not excess.numel():
        return True
    deciding = excess.amax() if tolerance == TOLERANCES[torch.float32] else excess.median()
    return bool(deciding <= 0)
