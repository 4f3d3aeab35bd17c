"""Where the time of probing goes, as torch's profiler sees it."""

import time
from typing import Any

from torch.profiler import ProfilerActivity, profile

from gpu_steps.models import Workbench, rows
from gpu_steps.probing import ours
from gpu_steps.timing import synchronize
from gpu_steps.work import Size

MOST = 12
"""Entries of each list."""
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
COPIES = ("cudaMemcpyAsync", "cudaMemcpy")
LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx")


def profiled(bench: Workbench, size: Size, *, long: bool = False) -> dict[str, Any]:
    """Return what takes most of the time, how often the host waits, and how busy the card is.

    Of probing as `probing` does it, or as `long_batches` does.
    """
    amounts, engine = bench.amounts, bench.engine(size)
    shape = (amounts.prompts, amounts.prefix)
    if long:
        shape = (amounts.long_prompts, amounts.long_prefix)
    work = ours(engine, rows(size, *shape), amounts)
    for _ in range(3):  # the second run of a shape records it
        work()
    on_card = bench.device.type == "cuda"
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_card else [])]
    synchronize(bench.device)
    with profile(activities=kinds) as seen:
        began = time.perf_counter()
        work()
        synchronize(bench.device)
        spent = time.perf_counter() - began
    events = seen.key_averages()
    counts = {event.key: event.count for event in events}
    kernels = [event for event in events if _on_device(event)]
    spent_there = sum(event.self_device_time_total for event in kernels) / 1e6
    return {
        "seconds": spent,
        "steps": amounts.new,
        "host": _longest(events, "self_cpu_time_total"),
        "device": _longest(kernels, "self_device_time_total"),
        "device_busy": spent_there / spent if on_card else None,
        "waits": sum(counts.get(name, 0) for name in WAITS),
        "copies": sum(counts.get(name, 0) for name in COPIES),
        "launches": sum(counts.get(name, 0) for name in LAUNCHES),
    }


def _on_device(event: Any) -> bool:
    """Say whether an event is a kernel's own; the times of operators repeat those."""
    return str(getattr(event, "device_type", "")).endswith("CUDA")


def _longest(events: Any, measure: str) -> list[dict[str, Any]]:
    """Return the events that took most by `measure` (microseconds there, seconds here)."""
    order = sorted(events, key=lambda event: -getattr(event, measure))[:MOST]
    return [
        {"name": event.key[:80], "seconds": getattr(event, measure) / 1e6, "count": event.count}
        for event in order
        if getattr(event, measure) > 0
    ]
