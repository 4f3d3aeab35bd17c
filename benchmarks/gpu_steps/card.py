"""What the device can do at best: matrix products in bfloat16, copies."""

from functools import partial
from statistics import median
from typing import Any

import torch

from gpu_steps.models import Workbench
from gpu_steps.timing import free_bytes, seconds


def card(bench: Workbench) -> dict[str, Any]:
    """Return the device's name, its rates and its memory."""
    device, amounts = bench.device, bench.amounts
    found: dict[str, Any] = {"name": device.type, "free_bytes": free_bytes(device)}
    if device.type == "cuda":
        about = torch.cuda.get_device_properties(device)
        found |= {"name": about.name, "bytes": about.total_memory, "cuda": torch.version.cuda}
        found["multiprocessors"] = about.multi_processor_count
    side = amounts.matrix
    a, b = (torch.randn(side, side, device=device, dtype=torch.bfloat16) for _ in range(2))
    took = median(seconds(lambda: a @ b, device, 10))
    found["bf16_flops_per_second"] = 2 * side**3 / took
    here = torch.zeros(amounts.buffer, dtype=torch.uint8, device=device)
    there = torch.empty_like(here)
    took = median(seconds(lambda: there.copy_(here), device, 10))
    found["copy_bytes_per_second"] = 2 * amounts.buffer / took
    found |= _from_host(here, amounts.buffer)
    return found


def _from_host(there: torch.Tensor, count: int) -> dict[str, float]:
    """Return the rates of copies from the host's memory, locked and not; none for a CPU."""
    if there.device.type != "cuda":
        return {}
    plain = torch.zeros(count, dtype=torch.uint8)
    found = {}
    for name, source in (("pageable", plain), ("pinned", plain.pin_memory())):
        copy = partial(there.copy_, source, non_blocking=True)
        took = median(seconds(copy, there.device, 3))
        found[f"{name}_bytes_per_second"] = count / took
    return found
