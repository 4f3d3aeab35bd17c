"""How much of each known direction is in a change: least squares on all of them at once.

A step of training moves weights along the gradients of the texts that it saw. A text's own part is
the product of its gradient and the change, if gradients have nothing in common; they do, so each is
counted less what the others explain.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

RIDGE = 0.03
"""What is added to the diagonal: directions have length 1. Chosen on one federation of
benchmarks/dp_claims.py (seed 13), which judges nothing; 0.003 and 0.3 made little difference."""


def direction_weights(gram: Floats, products: Floats, length: float) -> Floats:
    """Return how much of each direction is in a change, (directions,): (K + r I)^-1 c.

    K, `gram` (directions, directions), has the products of the directions, each of length 1, and
    c, `products` (directions,), those of each with the change, which is divided by its `length`: so
    that several changes count alike. r is RIDGE. Raises ValueError for a change of no length.
    """
    if not length > 0:
        raise ValueError("A change of no length has no direction.")
    diagonal = RIDGE * np.eye(len(products))
    return np.asarray(np.linalg.solve(gram + diagonal, products / length))
