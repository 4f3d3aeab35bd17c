"""Devices: which one and with which dtype, and numbers that go there from the host."""

from collections.abc import Sequence

import numpy as np
import torch

from fedaudit.api.errors import InputError, TargetError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
Numbers = torch.Tensor | np.ndarray | Sequence[int]


def device_for(wanted: str) -> torch.device:
    """Return the device asked for; "auto" is CUDA where there is one."""
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(wanted)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError):
        raise TargetError(f"The device {wanted!r} is not usable here.") from None
    return device


def dtype_for(wanted: str, device: torch.device) -> torch.dtype:
    """Return the dtype asked for; "auto" is float32 on CPU and bfloat16 elsewhere."""
    if wanted == "auto":
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    if wanted not in DTYPES:
        raise InputError(f"The dtype {wanted!r} is none of {', '.join(DTYPES)}.")
    return DTYPES[wanted]


def to_device(numbers: Numbers, device: torch.device | str) -> torch.Tensor:
    """Return numbers of the host on a device.

    CUDA copies from locked memory in turn with its other work, and the host goes on at once; from
    any other memory it would wait for all that the device was given before.
    """
    here = torch.as_tensor(numbers)
    if torch.device(device).type == "cuda" and here.device.type == "cpu":
        return here.contiguous().pin_memory().to(device, non_blocking=True)
    return here.to(device)
