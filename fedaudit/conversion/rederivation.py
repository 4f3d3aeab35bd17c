"""Whether a global adapter is the mean of its clients', and with which weights.

With clients' adapters c_i, their plain mean m, D_i = c_i - m and a global adapter g, the distance
of g from sum_i p_i c_i (sum_i p_i = 1) depends only on the matrix <D_i, D_j>, the vector
<D_i, g - m> and |g - m|^2. These add up over tensors, so tensors are read one by one.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.federation import adapters

if TYPE_CHECKING:
    import numpy as np

CLOSE = 0.01
"""How far a global adapter may be from the mean, as a share of the clients' spread."""
ROUNDING = {"float64": 1e-6, "float32": 1e-6, "float16": 2e-3, "bfloat16": 2e-2}
"""The further distance allowed, as a share of its norm, by dtype, to which means are rounded."""


@dataclass(frozen=True, slots=True)
class MeanFit:
    """How a round's global adapter compares with its clients'."""

    clients: tuple[str, ...]
    gram: "np.ndarray[Any, Any]"
    """<D_i, D_j>, of clients and clients."""
    products: "np.ndarray[Any, Any]"
    """<D_i, g - m>, of clients."""
    size: float
    """|g - m|^2."""
    rounding: float
    """The most that rounding may add to the distance."""

    def distance(self, weights: Mapping[str, float]) -> float:
        """Return |g - sum_i p_i c_i|, where p are the weights divided by their sum."""
        import numpy as np

        values = np.array([weights[client] for client in self.clients], dtype=np.float64)
        p = values / values.sum()
        squared = self.size - 2 * p @ self.products + p @ self.gram @ p
        return math.sqrt(max(float(squared), 0.0))

    @property
    def spread(self) -> float:
        """The clients' root mean square distance from their mean, sqrt(mean of |D_i|^2)."""
        return math.sqrt(float(self.gram.trace()) / len(self.clients))

    def is_mean(self, weights: Mapping[str, float]) -> bool:
        """Tell whether the global adapter is the mean with these weights."""
        return self.distance(weights) <= CLOSE * self.spread + self.rounding

    def best(self) -> dict[str, float]:
        """Return the weights, with a sum of 1, whose mean is nearest to the global adapter."""
        import numpy as np

        shift = np.linalg.pinv(self.gram, rcond=1e-9) @ self.products
        p = 1 / len(self.clients) + shift - shift.mean()
        return {client: float(value) for client, value in zip(self.clients, p, strict=True)}


def fit(global_folder: Path, clients: Mapping[str, Path]) -> MeanFit | None:
    """Return how a global adapter compares with the clients'; None if names or shapes differ.

    Each folder holds an adapter that has been checked.
    """
    import numpy as np
    from safetensors import safe_open

    names = tuple(sorted(clients))
    gram, products = np.zeros((len(names), len(names))), np.zeros(len(names))
    size, norm, rounding = 0.0, 0.0, 0.0
    with ExitStack() as stack:
        files = [
            stack.enter_context(safe_open(folder / adapters.WEIGHTS, "pt"))
            for folder in (global_folder, *(clients[name] for name in names))
        ]
        keys = [{adapters.canonical(key): key for key in file.keys()} for file in files]  # noqa: SIM118
        if any(table.keys() != keys[0].keys() for table in keys):
            return None
        for name in keys[0]:
            tensors = [
                file.get_tensor(table[name]) for file, table in zip(files, keys, strict=True)
            ]
            if len({tensor.shape for tensor in tensors}) > 1:
                return None
            kinds = {str(tensor.dtype).removeprefix("torch.") for tensor in tensors}
            rounding = max(rounding, *(ROUNDING.get(kind, 1.0) for kind in kinds))
            rows = np.stack([tensor.double().flatten().numpy() for tensor in tensors])
            mean = rows[1:].mean(axis=0)
            deviations, moved = rows[1:] - mean, rows[0] - mean
            gram += deviations @ deviations.T
            products += deviations @ moved
            size += float(moved @ moved)
            norm += float(rows[0] @ rows[0])
    return MeanFit(names, gram, products, size, rounding * math.sqrt(norm))


def weights_of(fits: Sequence[MeanFit]) -> dict[str, float]:
    """Return clients' weights under which as many rounds as possible are weighted means.

    All clients get the same weight if that fits every round. Otherwise the best weights of each
    round are put on one scale by means of the clients that rounds share; a client whose weight no
    round determines gets 1.
    """
    everybody = sorted({client for f in fits for client in f.clients})
    equal = dict.fromkeys(everybody, 1.0)
    if all(f.is_mean(equal) for f in fits):
        return equal
    weights: dict[str, float] = {}
    for mean_fit in sorted(fits, key=lambda mean_fit: -len(mean_fit.clients)):
        best = mean_fit.best()
        if not mean_fit.is_mean(best) or min(best.values()) <= 0:
            continue
        shared = [client for client in best if client in weights]
        scale = sum(weights[w] for w in shared) / sum(best[w] for w in shared) if shared else 1.0
        weights |= {
            client: value * scale for client, value in best.items() if client not in weights
        }
    mean = sum(weights.values()) / len(weights) if weights else 1.0
    return equal | {client: value / mean for client, value in weights.items()}
