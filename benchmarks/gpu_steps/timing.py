"""Seconds and memory of work on a device."""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch


def synchronize(device: torch.device) -> None:
    """Wait until the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds(work: Callable[[], Any], device: torch.device, repeats: int) -> list[float]:
    """Return the seconds of each of `repeats` runs, sorted; one run before warms up."""
    _timed(work, device)
    return sorted(_timed(work, device) for _ in range(repeats))


def _timed(work: Callable[[], Any], device: torch.device) -> float:
    synchronize(device)
    began = time.perf_counter()
    work()
    synchronize(device)
    return time.perf_counter() - began


def measured(work: Callable[[], Any], device: torch.device, repeats: int) -> dict[str, Any]:
    """Return the seconds of runs, and the most bytes that tensors took.

    The first run is not among them: `first` has its seconds.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    first = _timed(work, device)
    spent = sorted(_timed(work, device) for _ in range(repeats))
    peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
    return {
        "first": first,
        "seconds": median(spent),
        "least": spent[0],
        "greatest": spent[-1],
        "runs": repeats,
        "peak_bytes": peak,
    }


def free_bytes(device: torch.device) -> int | None:
    """Return how much memory a card has free; None for a CPU, which is not asked."""
    return int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else None
