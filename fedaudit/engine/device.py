"""Devices: which one and with which dtype, and numbers that go there from the host."""

from collections.abc import Sequence

import numpy as np
import torch

from fedaudit.api.errors import TargetError, UsageError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
Numbers = torch.Tensor | np.ndarray | Sequence[int]


def device_for(name: str) -> torch.device:
    """Return the device asked for; "auto" is CUDA where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError):
        raise TargetError(f"The device {name!r} is not usable here.") from None
    return device


def dtype_for(name: str, device: torch.device) -> torch.dtype:
    """Return the dtype asked for; "auto" is float32 on CPU and bfloat16 elsewhere."""
    if name == "auto":
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    if name not in DTYPES:
        raise UsageError(f"The dtype {name!r} is none of {', '.join(DTYPES)}.")
    return DTYPES[name]


def to_device(numbers: Numbers, device: torch.device | str) -> torch.Tensor:
    """Return numbers of the host on a device.

    CUDA copies from pinned memory in stream order while the host goes on; from any other memory
    the host would wait for all earlier work of the device.
    """
    return pinned(numbers, device).to(device, non_blocking=torch.device(device).type == "cuda")


def pinned(numbers: Numbers, device: torch.device | str) -> torch.Tensor:
    """Return numbers in memory that `device` copies from without the host's waiting."""
    tensor = torch.as_tensor(numbers)
    if torch.device(device).type == "cuda" and tensor.device.type == "cpu":
        return tensor.contiguous().pin_memory()
    return tensor
