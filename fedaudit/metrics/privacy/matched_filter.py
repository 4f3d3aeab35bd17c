"""The weight of each known direction in a change of weights, by least squares on all of them.

A training step moves weights along the gradients of the texts in its batch. If gradients were
orthogonal, a text's contribution would be the inner product of its gradient and the change; since
they are not, the regression removes from each what the others explain.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

RIDGE = 0.03
"""The ridge term on the diagonal, for directions of length 1. It was chosen on one federation of
benchmarks/dp_claims.py (seed 13) on which no result rests; 0.003 and 0.3 made little difference."""


def direction_weights(gram: Floats, products: Floats, length: float) -> Floats:
    """Return the weight of each direction in a change, (directions,): (K + r I)^-1 c / length.

    K is `gram` (directions, directions), the inner products of the directions, which have length 1;
    c is `products` (directions,), their inner products with the change; r is RIDGE. Division by the
    change's `length` gives several changes the same weight. Raises ValueError for length 0.
    """
    if not length > 0:
        raise ValueError("A change of no length has no direction.")
    diagonal = RIDGE * np.eye(len(products))
    return np.asarray(np.linalg.solve(gram + diagonal, products / length))
