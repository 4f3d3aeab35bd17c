"""From the host to the device, without waiting for what the device still has to do."""

from collections.abc import Sequence

import numpy as np
import torch

Numbers = torch.Tensor | np.ndarray | Sequence[int]


def to_device(numbers: Numbers, device: torch.device | str) -> torch.Tensor:
    """Return numbers of the host on a device.

    CUDA copies from locked memory in turn with its other work, and the host goes on at once; from
    any other memory it would wait for all that the device was given before.
    """
    here = torch.as_tensor(numbers)
    if torch.device(device).type == "cuda" and here.device.type == "cpu":
        return here.contiguous().pin_memory().to(device, non_blocking=True)
    return here.to(device)
