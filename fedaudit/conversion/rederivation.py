"""Whether a global adapter is the mean of its clients', and with which weights.

With clients' adapters c_i, their plain mean m, D_i = c_i - m and a global adapter g, the distance
of g from sum_i p_i c_i (sum_i p_i = 1) follows from the matrix <D_i, D_j>, the vector <D_i, g - m>
and |g - m|^2 alone, so that tensors are read one by one.
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
"""How far a global adapter may be from the mean: so much of what tells clients apart."""
ROUNDING = {"float64": 1e-6, "float32": 1e-6, "float16": 2e-3, "bfloat16": 2e-2}
"""And so much of its own size, by the kind of its numbers: means are rounded to them."""


@dataclass(frozen=True, slots=True)
class MeanFit:
    """How a round's global adapter stands to its clients'."""

    clients: tuple[str, ...]
    gram: "np.ndarray[Any, Any]"
    """<D_i, D_j>, of clients and clients."""
    products: "np.ndarray[Any, Any]"
    """<D_i, g - m>, of clients."""
    size: float
    """|g - m|^2."""
    rounding: float
    """What rounding may add to the distance."""

    def distance(self, weights: Mapping[str, float]) -> float:
        """Return |g - sum_i p_i c_i|, p being these weights with a sum of 1."""
        import numpy as np

        own = np.array([weights[who] for who in self.clients], dtype=np.float64)
        p = own / own.sum()
        squared = self.size - 2 * p @ self.products + p @ self.gram @ p
        return math.sqrt(max(float(squared), 0.0))

    @property
    def spread(self) -> float:
        """How far clients are from their mean: the root of the mean of |D_i|^2."""
        return math.sqrt(float(self.gram.trace()) / len(self.clients))

    def fits(self, weights: Mapping[str, float]) -> bool:
        """Tell whether the global adapter is the mean with these weights."""
        return self.distance(weights) <= CLOSE * self.spread + self.rounding

    def best(self) -> dict[str, float]:
        """Return the weights, with a sum of 1, whose mean is nearest."""
        import numpy as np

        shift = np.linalg.pinv(self.gram, rcond=1e-9) @ self.products
        p = 1 / len(self.clients) + shift - shift.mean()
        return {who: float(value) for who, value in zip(self.clients, p, strict=True)}


def fit(whole: Path, clients: Mapping[str, Path]) -> MeanFit | None:
    """Return how the adapter in a folder stands to clients'; None where their tensors are others.

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
            for folder in (whole, *(clients[name] for name in names))
        ]
        keys = [{adapters.canonical(key): key for key in file.keys()} for file in files]  # noqa: SIM118
        if any(own.keys() != keys[0].keys() for own in keys):
            return None
        for name in keys[0]:
            tensors = [file.get_tensor(own[name]) for file, own in zip(files, keys, strict=True)]
            if len({tensor.shape for tensor in tensors}) > 1:
                return None
            kinds = {str(tensor.dtype).removeprefix("torch.") for tensor in tensors}
            rounding = max(rounding, *(ROUNDING.get(kind, 1.0) for kind in kinds))
            rows = np.stack([tensor.double().flatten().numpy() for tensor in tensors])
            mean = rows[1:].mean(axis=0)
            apart, moved = rows[1:] - mean, rows[0] - mean
            gram += apart @ apart.T
            products += apart @ moved
            size += float(moved @ moved)
            norm += float(rows[0] @ rows[0])
    return MeanFit(names, gram, products, size, rounding * math.sqrt(norm))


def weights_of(fits: Sequence[MeanFit]) -> dict[str, float]:
    """Return a weight of each client under which as many rounds as can be are means.

    All weigh the same where that fits every round. Otherwise each round's best weights are put on
    one scale by the clients that rounds share; a client that no round tells weighs 1.
    """
    everybody = sorted({who for one in fits for who in one.clients})
    equal = dict.fromkeys(everybody, 1.0)
    if all(one.fits(equal) for one in fits):
        return equal
    found: dict[str, float] = {}
    for one in sorted(fits, key=lambda one: -len(one.clients)):
        best = one.best()
        if not one.fits(best) or min(best.values()) <= 0:
            continue
        shared = [who for who in best if who in found]
        scale = sum(found[w] for w in shared) / sum(best[w] for w in shared) if shared else 1.0
        found |= {who: value * scale for who, value in best.items() if who not in found}
    mean = sum(found.values()) / len(found) if found else 1.0
    return equal | {who: value / mean for who, value in found.items()}
