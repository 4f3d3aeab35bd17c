"""A stranger's model, opened first in a process that can be ended.

What transformers makes of a model's folder (its configuration, tokenizer, chat template and the
headers of its weights) may be made to take all time and memory, or to end the process. Whatever
this process will do with them is tried before in another one, with limits (`sandbox`).
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from fedaudit import nano, sandbox
from fedaudit.engine import quarantine_process
from fedaudit.errors import InputError

SECONDS = 6.0
"""How long a model's configuration, tokenizer and template may take to open and use."""
WITHOUT = ("torch",)
"""It takes seconds to import, and neither a configuration nor a tokenizer needs it."""


def check(folder: Path, names: Sequence[str]) -> int:
    """Return how many tensors a model's files hold, once they have been opened apart from here.

    `names` are the files in it that are read. Raises InputError, naming the file, for one that
    takes too long or too much, or ends the process. The built-in model is not tried.
    """
    if folder != nano.folder():
        _tried(folder, tuple(names), _version(folder, names))
    return quarantine_process.tensors(folder, names)


@lru_cache(maxsize=64)  # a folder is tried once, not each time
def _tried(folder: Path, names: tuple[str, ...], _version: tuple[int, ...]) -> None:
    asked = {"folder": str(folder), "names": names}
    try:
        for without in (WITHOUT, ()):  # what fails without torch may do with it
            if sandbox.attempt(
                quarantine_process.open_model, asked, seconds=SECONDS, without=without
            ):
                return
    except sandbox.Ended as ended:
        raise InputError(f"{folder} cannot be opened: {ended}.") from None


def _version(folder: Path, names: Sequence[str]) -> tuple[int, ...]:
    """Return what changes with the files."""
    found = [(folder / name).stat() for name in names]
    return tuple(part for one in found for part in (one.st_ino, one.st_mtime_ns, one.st_size))
