"""A client's update as one vector, which is all that a protocol for sums knows."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fedaudit.api import InputError, Update

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Layout = Mapping[str, tuple[int, ...]]
"""The shape of each tensor by name; its order is the order in the vector."""


def layout_of(update: Update) -> Layout:
    """Return the layout of an update's vector: its names in alphabetical order."""
    return {name: tuple(update[name].shape) for name in sorted(update)}


def flatten(update: Update, layout: Layout, client: str) -> "NDArray[np.float32]":
    """Return the update of `client` as one vector, float32, in the order of `layout`.

    Raises InputError for tensors that differ from `layout` and for a value that is not finite.
    """
    import torch

    if layout_of(update) != layout:
        raise InputError(
            f"The update of {client} has other tensors than those of the other clients."
        )
    vector = torch.cat(
        [torch.zeros(0)] + [update[name].detach().cpu().float().reshape(-1) for name in layout]
    )
    if not torch.isfinite(vector).all():
        raise InputError(f"The update of {client} has a value that is not a finite number.")
    return vector.numpy()


def unflatten(vector: "NDArray[np.floating]", layout: Layout) -> Update:
    """Return the tensors, float32, that a vector of that layout holds."""
    import torch

    update, start = {}, 0
    for name, shape in layout.items():
        end = start + math.prod(shape)
        update[name] = torch.from_numpy(vector[start:end]).float().reshape(shape).clone()
        start = end
    return update
