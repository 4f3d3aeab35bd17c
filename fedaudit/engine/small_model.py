"""Models with operations so short that they run in one CPU thread."""

import contextlib
from collections.abc import Iterator

import torch

MAX_PARAMETERS = 30_000_000
"""A small model has fewer parameters than this."""


def is_small(model: torch.nn.Module) -> bool:
    """Tell whether a model is small and on a CPU."""
    parameters = list(model.parameters())
    on_cpu = all(p.device.type == "cpu" for p in parameters)
    return on_cpu and sum(p.numel() for p in parameters) < MAX_PARAMETERS


@contextlib.contextmanager
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
