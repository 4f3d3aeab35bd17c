"""Green lists by scheme, as the public programs have them; they detect only their own.

* lefthash: lm-watermarking's simple_1, and transformers' lefthash;
* minhash, skipgram, selfhash: lm-watermarking's, with its fixed table (seed 2971215073);
* hf-selfhash: transformers' selfhash, whose table is seeded by the key;
* textseal: no list, but a hash of window, token and key (`textseal`), whatever the vocabulary.

A list of the others is the beginning of `torch.randperm(vocabulary)` on a CPU (Kirchenbauer et
al., 2023, algorithm 2): another vocabulary, or a list made on a GPU, has nothing to do with it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from . import textseal

if TYPE_CHECKING:
    import numpy as np

TABLE, TABLE_SEED = 1_000_003, 2971215073
WRAP = 2**64 - 1
"""Seeds are taken modulo this, as both programs do."""
LISTS = 8192
"""So many green lists are kept, one bit a token: 160 MB of the largest vocabularies."""


@dataclass(frozen=True)
class Scheme:
    """What decides whether a token is green."""

    name: str
    width: int
    """Tokens of the n-gram that seeds a list, unless the user says otherwise."""
    seeds: "Callable[[np.ndarray, int], list[int]] | None" = None
    """The seeds of contexts (n, width) under a key; None needs no list."""
    self_seeded: bool = False
    """Whether the judged token is the last of its own n-gram."""
    candidates: int = 0
    """With `self_seeded`: so many likeliest tokens are judged at each step of writing."""

    @property
    def uses_vocabulary_size(self) -> bool:
        """Whether another size of the vocabulary makes other lists."""
        return self.seeds is not None

    def before(self, width: int) -> int:
        """Return how many tokens before a token decide on it."""
        return width - self.self_seeded


def _lefthash(contexts: "np.ndarray", key: int) -> list[int]:
    return [key * token for token in contexts[:, -1].tolist()]


def _minhash(contexts: "np.ndarray", key: int) -> list[int]:
    seeds: list[int] = _hash(contexts * textseal.wrap_int64(key), TABLE_SEED).min(axis=1).tolist()
    return seeds


def _skipgram(contexts: "np.ndarray", key: int) -> list[int]:
    seeds: list[int] = _hash(contexts[:, 0] * textseal.wrap_int64(key), TABLE_SEED).tolist()
    return seeds


def _selfhash(contexts: "np.ndarray", key: int, table: int = TABLE_SEED) -> list[int]:
    hashes = _hash(contexts, table)
    seeds: list[int] = (hashes * textseal.wrap_int64(key) * hashes[:, -1:]).min(axis=1).tolist()
    return seeds


def _hf_selfhash(contexts: "np.ndarray", key: int) -> list[int]:
    return _selfhash(contexts, key, table=key)


SCHEMES = {
    scheme.name: scheme
    for scheme in (
        Scheme("textseal", 1),
        Scheme("lefthash", 1, _lefthash),
        Scheme("minhash", 4, _minhash),
        Scheme("skipgram", 5, _skipgram),
        Scheme("selfhash", 4, _selfhash, self_seeded=True, candidates=41),
        Scheme("hf-selfhash", 1, _hf_selfhash, self_seeded=True, candidates=40),
    )
}


def is_green(
    scheme: str,
    windows: Any,
    tokens: Any,
    *,
    vocabulary: int,
    gamma: float,
    key: int,
) -> "np.ndarray":
    """Return whether tokens are green behind their windows, as booleans.

    `windows` (..., before) are the tokens right before each of `tokens` (...), oldest first: as
    many as the scheme's width, for the selfhash schemes one fewer. The two are broadcast, so that
    windows (n, 1, before) and tokens (m,) give (n, m). A token outside the vocabulary is not green.
    """
    import numpy as np

    windows, tokens = np.asarray(windows, np.int64), np.asarray(tokens, np.int64)
    if not SCHEMES[scheme].uses_vocabulary_size:
        with np.errstate(over="ignore"):  # NumPy warns where a single number wraps
            hashes: np.ndarray = textseal.hash_tokens(windows, tokens, key)
        return hashes < textseal.limit(gamma)
    shape = np.broadcast_shapes(windows.shape[:-1], tokens.shape)
    tokens = np.broadcast_to(tokens, shape)
    contexts = np.broadcast_to(windows, (*shape, windows.shape[-1]))
    if SCHEMES[scheme].self_seeded:
        contexts = np.concatenate([contexts, tokens[..., None]], axis=-1)
    flat = contexts.reshape(-1, contexts.shape[-1])
    return _look_up_lists(scheme, flat, tokens.ravel(), vocabulary, gamma, key).reshape(shape)


def lists(scheme: str, ngrams: "np.ndarray", key: int) -> "np.ndarray":
    """Return what names the list that judges the last token of n-grams (n, before + 1), int64 (n,).

    Several n-grams may share one. Raises ValueError for textseal, which has no lists.
    """
    import numpy as np

    rule = SCHEMES[scheme]
    if rule.seeds is None:
        raise ValueError(f"The scheme {scheme} seeds no lists.")
    seeds = rule.seeds(ngrams if rule.self_seeded else ngrams[:, :-1], key)
    return np.array([textseal.wrap_int64(seeded % WRAP) for seeded in seeds], dtype=np.int64)


def green_mask(
    scheme: str, windows: "np.ndarray", *, vocabulary: int, gamma: float, key: int
) -> "np.ndarray":
    """Return every token's colour behind windows (n, width), as booleans (n, vocabulary).

    Only for schemes whose lists do not depend on the judged token itself.
    """
    import numpy as np

    rule = SCHEMES[scheme]
    if rule.self_seeded:
        raise ValueError(f"Under {scheme} every token has a list of its own.")
    if rule.seeds is None:
        hashes = textseal.hash_tokens(windows[:, None], np.arange(vocabulary), key)
        mask: np.ndarray = hashes < textseal.limit(gamma)
        return mask
    size = int(vocabulary * gamma)
    rows = [_bits(seeded % WRAP, vocabulary, size) for seeded in rule.seeds(windows, key)]
    return np.unpackbits(np.stack(rows), axis=1, count=vocabulary).astype(bool)


def _look_up_lists(
    scheme: str,
    contexts: "np.ndarray",
    tokens: "np.ndarray",
    vocabulary: int,
    gamma: float,
    key: int,
) -> "np.ndarray":
    """Look tokens (n,) up in the lists of contexts (n, width), each list once."""
    import numpy as np

    green = np.zeros(len(tokens), dtype=bool)
    rule = SCHEMES[scheme]
    members: dict[int, list[int]] = {}
    assert rule.seeds is not None
    for row, seeded in enumerate(rule.seeds(contexts, key)):
        if 0 <= tokens[row] < vocabulary:
            members.setdefault(seeded % WRAP, []).append(row)
    for seeded, rows in members.items():
        bits, chosen = _bits(seeded, vocabulary, int(vocabulary * gamma)), tokens[rows]
        green[rows] = bits[chosen >> 3] >> (7 - (chosen & 7)) & 1
    return green


@lru_cache(maxsize=LISTS)
def _bits(seeded: int, vocabulary: int, size: int) -> "np.ndarray":
    """Return the list of a seed as packed bits, the first token's highest."""
    import numpy as np

    mask = np.zeros(vocabulary, dtype=bool)
    mask[_permutation(seeded, vocabulary)[:size]] = True
    return np.packbits(mask)


def _permutation(seeded: int, size: int) -> "np.ndarray":
    """Return 0 to size - 1 in torch's order on a CPU, int64."""
    import torch

    generator = torch.Generator(device="cpu").manual_seed(seeded)
    permutation: np.ndarray = torch.randperm(size, generator=generator, device="cpu").numpy()
    return permutation


@lru_cache(maxsize=4)
def _table(seeded: int) -> "np.ndarray":
    return _permutation(seeded, TABLE)


def _hash(numbers: "np.ndarray", table: int) -> "np.ndarray":
    """Return h(x) = T[x mod 1000003] + 1, of int64 in its shape."""
    hashes: np.ndarray = _table(table)[numbers % TABLE] + 1
    return hashes
