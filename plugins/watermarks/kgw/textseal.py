"""textseal's green tokens: an integer hash of window, token and key; no vocabulary, no torch.

All arithmetic is in wrapping signed 64-bit integers, for NumPy arrays and torch tensors alike:

    h = (sum_i P_i * w_i + 100000007 * x + 500001713 * key) * 15485863 * 40499
    h = h ^ (h >> 13)                        (arithmetic shift)
    u = (h mod 8191) / 8191 in float32       (floor-mod);   x is green iff u < gamma

where w are the `width` tokens before x, the oldest first (facebookresearch/textseal).
"""

from functools import cache
from typing import Any

PRIMES = (
    *(10000019, 10000247, 10000439, 10000643, 10000747),
    *(10000867, 10000993, 10001213, 10001357, 10001501),
)
"""One for each position in the window: no window is wider."""
TOKEN, KEY, SPREAD, MODULUS = 100000007, 500001713, 15485863 * 40499, 8191


def hash_tokens(windows: Any, tokens: Any, key: int) -> Any:
    """Return h mod 8191 of integer arrays or tensors, int64.

    Shapes: windows (..., width) and tokens (...), which may be broadcast against each other.
    """
    return finalize_hash(window_part(windows, key) + token_part(tokens))


def window_part(windows: Any, key: int) -> Any:
    """Return what windows (..., width) and the key add to the sum, already spread, (...)."""
    total: Any = wrap_int64(KEY * key * SPREAD)
    for position in range(windows.shape[-1]):
        total = windows[..., position] * wrap_int64(PRIMES[position] * SPREAD) + total
    return total


def token_part(tokens: Any) -> Any:
    """Return what tokens add to the sum, already spread, in their shape."""
    return tokens * wrap_int64(TOKEN * SPREAD)


def finalize_hash(total: Any) -> Any:
    """Return the hash of a spread sum, 0 to 8190."""
    return (total ^ (total >> 13)) % MODULUS


@cache
def limit(gamma: float) -> int:
    """Return how many hash values are green: h is green iff it is below, as u < gamma says."""
    import numpy as np

    u = np.arange(MODULUS, dtype=np.float32) / np.float32(MODULUS)
    return int((u < np.float32(gamma)).sum())


def wrap_int64(number: int) -> int:
    """Return `number` as a signed 64-bit integer would hold it."""
    return (number + 2**63) % 2**64 - 2**63
