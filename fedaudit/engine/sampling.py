"""Drawing tokens: the randomness of a sample belongs to the sample, not to its batch."""

import hashlib
from collections.abc import Sequence

import numpy as np
import torch

from fedaudit.records import Decoding

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def probe_key(seed: int, prompt: Sequence[int]) -> int:
    """Return the 64-bit key that all randomness of a prompt derives from."""
    text = f"{seed}:{','.join(map(str, prompt))}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def uniforms(keys: Sequence[int], samples: Sequence[int], step: int) -> np.ndarray:
    """Return one number in [0, 1) a row: a function of (key, sample, step) alone.

    Splitmix64 (Steele et al., 2014) is applied to key, sample and step in turn; the top 53 bits
    become the float64. Shapes: (rows,), (rows,) -> (rows,).
    """
    with np.errstate(over="ignore"):
        state = _mixed(np.asarray(keys, dtype=np.uint64))
        state = _mixed(state + np.asarray(samples, dtype=np.uint64) * _GOLDEN)
        state = _mixed(state + np.uint64(step) * _GOLDEN)
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(state: np.ndarray) -> np.ndarray:
    state = state + _GOLDEN
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(state ^ (state >> np.uint64(31)))


def probabilities(logits: torch.Tensor, decoding: Decoding) -> torch.Tensor:
    """Return the distribution (rows, vocabulary) that tokens are drawn from, in float64.

    Temperature first, then top-k, then top-p: the order of transformers' warpers. Top-p keeps the
    smallest set of likeliest tokens whose probability reaches p; ties at the k-th token stay.
    """
    logits = logits.double() / decoding.temperature
    if 0 < decoding.top_k < logits.shape[-1]:
        kth = logits.topk(decoding.top_k, dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < kth, -torch.inf)
    chances = torch.softmax(logits, dim=-1)
    if decoding.top_p < 1.0:
        ordered, order = chances.sort(dim=-1, descending=True, stable=True)
        ahead = ordered.cumsum(dim=-1) - ordered
        kept = torch.zeros_like(chances).scatter(-1, order, (ahead < decoding.top_p).double())
        chances = chances * kept
        chances = chances / chances.sum(dim=-1, keepdim=True)
    return chances


def draw(logits: torch.Tensor, uniform: np.ndarray, decoding: Decoding) -> torch.Tensor:
    """Return one token a row, shape (rows,): inverse transform sampling, or the likeliest."""
    if decoding.temperature == 0:
        return logits.argmax(dim=-1)
    cumulative = probabilities(logits, decoding).cumsum(dim=-1)
    # Scaled to the row's own total, so that rounding never points past the last token.
    wanted = torch.as_tensor(uniform, device=logits.device)[:, None] * cumulative[:, -1:]
    found = torch.searchsorted(cumulative, wanted, right=True).squeeze(-1)
    return found.clamp(max=logits.shape[-1] - 1)
