"""An untrusted model, opened first in a process that can be killed.

What transformers makes of a model's folder (its configuration, tokenizer, chat template and the
headers of its weights) may be made to take all time and memory, or to end the process. Whatever
this process will do with them is tried before in another one, with limits (`sandbox`).
"""

from functools import lru_cache
from pathlib import Path

from fedaudit import nano
from fedaudit.api.errors import InputError
from fedaudit.engine.loading import checkpoint
from fedaudit.system import sandbox

SECONDS = 10.0
"""How long a model's configuration, tokenizer and template may take to open and use."""
BLOCKED_MODULES = ("torch",)
"""It takes seconds to import, and neither a configuration nor a tokenizer needs it."""
TRIAL = "fedaudit.engine.loading.quarantine_process.open_model"
TOKENIZER = "fedaudit.engine.loading.quarantine_process.open_tokenizer"


def check(folder: Path) -> None:
    """Raise InputError for a folder that is no plain model, or that cannot be opened with limits.

    It names the file that takes too long or too much, or ends the process. The built-in model is
    not tried, and a folder whose files stay as they are is tried once.
    """
    checkpoint.check(folder)
    if folder != nano.folder():
        _try_in_sandbox(TRIAL, folder.absolute(), _version(folder))


def check_tokenizer(folder: Path) -> None:
    """Raise InputError for a folder whose tokenizer cannot be opened with limits, as `check`."""
    checkpoint.check_files(folder)
    if folder != nano.folder():
        _try_in_sandbox(TOKENIZER, folder.absolute(), _version(folder))


@lru_cache(maxsize=64)
def _try_in_sandbox(trial: str, folder: Path, _version: tuple[int, ...]) -> None:
    try:
        for without in (BLOCKED_MODULES, ()):  # what fails without torch may do with it
            if sandbox.attempt(trial, str(folder), seconds=SECONDS, without=without):
                return
    except sandbox.TrialEnded as error:
        raise InputError(f"{folder} cannot be opened: {error}.") from None


def _version(folder: Path) -> tuple[int, ...]:
    """Return a key that changes with the files of a model."""
    stats = [(folder / name).stat() for name in checkpoint.files(folder)]
    return tuple(value for s in stats for value in (s.st_ino, s.st_mtime_ns, s.st_size))
