"""What processes are asked to do in tests; light, since each imports it anew."""

import os
import signal
from pathlib import Path

from fedaudit.api.errors import InputError


def square(number):
    if number < 0:
        raise InputError(f"{number} is negative.")
    return number**2


def dies_once(path):
    """End this process the first time, answer the second."""
    if not Path(path).exists():
        Path(path).touch()
        dies(None)
    return "alive"


def dies(_value):
    os.kill(os.getpid(), signal.SIGKILL)


class StaysError(Exception):
    """An error that cannot be made again from its arguments."""

    def __init__(self, *, why):
        super().__init__(why)


def stays(_value):
    raise StaysError(why="cannot travel")
