"""Keys that nobody has: what z a text has under them, and so how far chance alone takes it.

Without a watermark a key makes every choice of a text green with the chance gamma, whatever the
other choices. So a null key needs no lists of its own: a hash of it and the choice says green.
Under the same null keys, texts that have choices in common have scores in common.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def null_scores(choices: "np.ndarray", gamma: float, count: int, *, salt: int) -> tuple[float, ...]:
    """Return z under each of `count` null keys, of distinct choices, int64 (n, columns).

    z = (G - gamma n) / sqrt(gamma (1 - gamma) n), to four places; zeros where n is 0. It does not
    depend on the order of the choices. `salt` is 64 bits that tell these null keys from others.
    """
    import numpy as np

    from fedaudit.engine.generation.sampler import uniforms

    if not (len(choices) and count):
        return (0.0,) * count
    keys = _hashes(choices, salt)
    scale = float(np.sqrt(gamma * (1 - gamma) * len(keys)))
    green = [
        int((uniforms(keys, np.full_like(keys, null), 0) < gamma).sum()) for null in range(count)
    ]
    return tuple(round((hits - gamma * len(keys)) / scale, 4) for hits in green)


def _hashes(rows: "np.ndarray", salt: int) -> "np.ndarray":
    """Return 64 bits for each row."""
    import numpy as np

    from fedaudit.engine.generation.sampler import splitmix64

    state = np.full(len(rows), salt, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in rows.T:
            state = splitmix64(state ^ column.astype(np.uint64))
    return state
