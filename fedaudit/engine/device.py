"""The device, dtype and threads to use, and copies of numbers from the host to the device."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch

from fedaudit.api.errors import TargetError, UsageError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
MAX_PARAMETERS = 30_000_000
"""A small model has fewer parameters than this."""
Numbers = torch.Tensor | np.ndarray | Sequence[int]


def device_for(name: str) -> torch.device:
    """Return the device of this name; "auto" is CUDA if available, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError):
        raise TargetError(f"The device {name!r} is not usable here.") from None
    return device


def dtype_for(name: str, device: torch.device) -> torch.dtype:
    """Return the dtype of this name; "auto" is float32 on a CPU and bfloat16 elsewhere."""
    if name == "auto":
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    if name not in DTYPES:
        raise UsageError(f"The dtype {name!r} is none of {', '.join(DTYPES)}.")
    return DTYPES[name]


def to_device(numbers: Numbers, device: torch.device | str) -> torch.Tensor:
    """Return a copy of the host's numbers on a device.

    From pinned memory, CUDA copies in stream order while the host goes on. A copy from any other
    memory would make the host wait for all work that the device still has to do.
    """
    return pinned(numbers, device).to(device, non_blocking=torch.device(device).type == "cuda")


def pinned(numbers: Numbers, device: torch.device | str) -> torch.Tensor:
    """Return numbers in memory from which `device` copies without making the host wait."""
    tensor = torch.as_tensor(numbers)
    if torch.device(device).type == "cuda" and tensor.device.type == "cpu":
        return tensor.contiguous().pin_memory()
    return tensor


def is_small(model: torch.nn.Module) -> bool:
    """Tell whether a model is small and on a CPU."""
    parameters = list(model.parameters())
    on_cpu = all(p.device.type == "cpu" for p in parameters)
    return on_cpu and sum(p.numel() for p in parameters) < MAX_PARAMETERS


@contextmanager
def few_threads(*, small: bool) -> Iterator[None]:
    """Run a small model in one thread, which also fixes the order of floating-point sums.

    The operations of a small model are so short that threads mostly wait for each other: a second
    thread saves a quarter of the time on an idle machine and takes many times longer on a busy one.
    """
    before = torch.get_num_threads()
    if small:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
