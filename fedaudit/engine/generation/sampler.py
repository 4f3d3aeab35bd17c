"""Drawing tokens, with random numbers that depend on the sample and not on its batch."""

import hashlib
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch

from fedaudit.api.errors import InputError
from fedaudit.api.records import SamplingParams
from fedaudit.engine.device import to_device
from fedaudit.engine.generation.cuda_graphs import CudaGraphs, bucket_size

NO_NUMBERS = (
    "The model's answers are not numbers: its weights, or its adapter's, overflow as they are "
    "multiplied. Is it damaged, or does it need another --dtype?"
)

NO_TOKEN = -1
"""Drawn in place of a token where the logits are NaN or infinite."""
BLOCK = 64
"""Tokens per block; first a block is drawn, then a token of that block."""
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def probe_key(seed: int, prompt: Sequence[int]) -> int:
    """Return the 64-bit key from which all random numbers of a prompt derive."""
    text = f"{seed}:{','.join(map(str, prompt))}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def uniforms(
    keys: Sequence[int] | np.ndarray, samples: Sequence[int] | np.ndarray, step: int | np.ndarray
) -> np.ndarray:
    """Return one number in [0, 1) per row, a function of (key, sample, step) alone.

    Splitmix64 (Steele et al., 2014) is applied to key, sample and step in turn; the top 53 bits
    become the float64. Shapes: (rows,), (rows,), (rows,) or () -> (rows,).
    """
    with np.errstate(over="ignore"):
        state = splitmix64(np.asarray(keys, dtype=np.uint64))
        state = splitmix64(state + np.asarray(samples, dtype=np.uint64) * _GOLDEN)
        state = splitmix64(state + np.asarray(step, dtype=np.uint64) * _GOLDEN)
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53


def splitmix64(state: np.ndarray) -> np.ndarray:
    """Return one step of splitmix64 for each uint64 number; sums wrap around."""
    state = state + _GOLDEN
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(state ^ (state >> np.uint64(31)))


def probabilities(logits: torch.Tensor, decoding: SamplingParams) -> torch.Tensor:
    """Return the distribution (rows, vocabulary) that tokens are drawn from, in float64.

    Temperature is applied first, then top-k, then top-p, as in transformers' logits warpers. Top-k
    keeps all ties with the k-th token; top-p keeps the smallest set of likeliest tokens whose
    probability reaches p.
    """
    logits = logits.double() / decoding.temperature
    if 0 < decoding.top_k < logits.shape[-1]:
        kth = logits.topk(decoding.top_k, dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < kth, -torch.inf)
    chances = torch.softmax(logits, dim=-1)
    if decoding.top_p < 1.0:
        ordered, order = chances.sort(dim=-1, descending=True, stable=True)
        ahead = ordered.cumsum(dim=-1) - ordered
        nucleus = torch.zeros_like(chances).scatter(-1, order, (ahead < decoding.top_p).double())
        chances = chances * nucleus
        chances = chances / chances.sum(dim=-1, keepdim=True)
    return chances


def draw(
    logits: torch.Tensor,
    uniform: np.ndarray,
    decoding: SamplingParams,
    rows: np.ndarray | None = None,
) -> torch.Tensor:
    """Return one token per number in `uniform` (samples,), by inverse transform sampling.

    At temperature 0 it is the likeliest token. Sample i draws from row rows[i] of the logits, or
    from row i without `rows`. Raises InputError for logits that are NaN or infinite.
    """
    where = to_device(np.arange(len(uniform)) if rows is None else rows, logits.device)
    tokens = _draw(logits, decoding, where, to_device(uniform, logits.device))
    if bool((tokens == NO_TOKEN).any()):
        raise InputError(NO_NUMBERS)
    return tokens


def draw_to_host(
    logits: torch.Tensor,
    uniform: np.ndarray,
    decoding: SamplingParams,
    rows: np.ndarray,
    graphs: CudaGraphs | None = None,
) -> np.ndarray:
    """Return the tokens of `draw` in host memory, with a single device synchronization.

    With `graphs`, the draw is captured and replayed; `logits` must then be their buffer.
    """
    if graphs:
        count = bucket_size(len(uniform))
        inputs = [np.resize(numbers, count) for numbers in (rows, uniform)]
        shape = len(logits), count, decoding
        drawn = graphs.run("draw", shape, inputs, partial(_draw, logits, decoding))
    else:
        where, number = (to_device(numbers, logits.device) for numbers in (rows, uniform))
        drawn = _draw(logits, decoding, where, number)
    tokens = drawn[: len(uniform)].cpu().numpy()
    if (tokens == NO_TOKEN).any():
        raise InputError(NO_NUMBERS)
    return np.asarray(tokens)


def _draw(
    logits: torch.Tensor, decoding: SamplingParams, where: torch.Tensor, number: torch.Tensor
) -> torch.Tensor:
    """Return one token per sample, without synchronizing; NO_TOKEN for NaN and infinity."""
    if decoding.temperature == 0:
        likeliest = logits.max(dim=-1)
        return likeliest.indices.where(likeliest.values.isfinite(), NO_TOKEN)[where]
    chances = sampling_weights(logits, decoding)
    missing = -chances.shape[-1] % BLOCK  # without padding, nothing is copied
    blocks = torch.nn.functional.pad(chances, (0, missing)) if missing else chances
    blocks = blocks.view(len(chances), -1, BLOCK)
    # First the block, then the token in it: so cumulative sums of every row are over blocks only.
    totals = blocks.sum(dim=-1).double().cumsum(dim=-1)
    block, remainder = _locate(totals[where], number)
    token, _ = _locate(blocks[where, block].double().cumsum(dim=-1), remainder)
    return (block * BLOCK + token).where(totals[where, -1].isfinite(), NO_TOKEN)


def _locate(cumulative: torch.Tensor, number: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the entry that each number in [0, 1) falls on, and its relative place in the entry."""
    total = cumulative[:, -1]
    # Below the total despite rounding, so that no entry of weight 0 is ever found.
    thresholds = (number * total).minimum(torch.nextafter(total, torch.zeros_like(total)))
    entry = torch.searchsorted(cumulative, thresholds[:, None], right=True)
    entry = entry.clamp(max=cumulative.shape[-1] - 1)  # only NaN falls beyond the last entry
    before = torch.nn.functional.pad(cumulative, (1, 0))
    start, end = before.gather(-1, entry).squeeze(-1), cumulative.gather(-1, entry).squeeze(-1)
    return entry.squeeze(-1), (thresholds - start) / (end - start)


def sampling_weights(logits: torch.Tensor, decoding: SamplingParams) -> torch.Tensor:
    """Return unnormalised probabilities of the tokens (rows, vocabulary).

    They are in float32, or in float64 with top-p.
    """
    if decoding.top_p < 1.0:
        return probabilities(logits, decoding)
    if decoding.temperature != 1.0:
        logits = logits.float() / decoding.temperature
    if 0 < decoding.top_k < logits.shape[-1]:
        kth = logits.topk(decoding.top_k, dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < kth, -torch.inf)
    # Subtracting float32 from half-precision logits gives float32 without a copy of the logits.
    return (logits - logits.amax(dim=-1, keepdim=True).float()).exp_()
