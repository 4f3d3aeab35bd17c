"""How long work tells of itself."""

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called with (done, total) as work goes on."""


def no_progress(done: int, total: int) -> None:
    """Do nothing."""
