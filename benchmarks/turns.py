"""Running several ways of doing the same work in turn, and what their times have to do."""

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

Way = Callable[[], Any]


def in_turn(ways: Mapping[str, Way], repeats: int) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Return each way's seconds, one entry a repeat, and what it last returned.

    Every repeat runs all ways, the last first in every other one: a machine that slows down over
    time, or is busy for a while, is not held against one of them. One round before warms up.
    Seconds are the processor's, of all threads of this process: with one thread, what an idle
    machine would take.
    """
    spent: dict[str, list[float]] = {name: [] for name in ways}
    found: dict[str, Any] = {name: way() for name, way in ways.items()}
    for repeat in range(repeats):
        for name in list(ways)[:: -1 if repeat % 2 else 1]:
            began = time.process_time()
            found[name] = ways[name]()
            spent[name].append(time.process_time() - began)
    return spent, found


def ratios(spent: Mapping[str, list[float]], peer: str, ours: str) -> list[float]:
    """Return how many times as long the peer took as we did, sorted, one entry a repeat."""
    return sorted(a / b for a, b in zip(spent[peer], spent[ours], strict=True))


def line(title: str, spent: Mapping[str, list[float]], peer: str, ours: str) -> str:
    """Return one line: the median times, and the median ratio with its spread."""
    found = ratios(spent, peer, ours)
    return (
        f"{title:<44} {median(spent[peer]):7.2f} s / {median(spent[ours]):7.2f} s = "
        f"{median(found):5.2f} x   ({found[0]:.2f} to {found[-1]:.2f}, n = {len(found)})"
    )
