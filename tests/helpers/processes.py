"""Processes that a test starts, and whether they have ended."""

import time
from collections.abc import Callable

import psutil


def is_running(pid: int) -> bool:
    """Return whether a process is there and is not a zombie."""
    try:
        return psutil.Process(pid).status() not in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}
    except psutil.NoSuchProcess:  # before the question, or while it was answered
        return False


def wait_until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait until a condition holds, and fail where it does not in time."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    assert condition()
