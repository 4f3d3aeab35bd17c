"""An untrusted model, opened first in a process that can be killed.

A model's configuration, tokenizer, chat template and weight headers can be crafted so that
transformers takes unlimited time or memory, or crashes the process. So whatever this process will
do with them is tried first in another process with limits (`sandbox`).
"""

from functools import lru_cache
from pathlib import Path

from fedaudit import nano
from fedaudit.api.errors import InputError
from fedaudit.engine.loading import checkpoint
from fedaudit.system import sandbox

SECONDS = 10.0
"""The time limit for opening and using a model's configuration, tokenizer and template."""
BLOCKED_MODULES = ("torch",)
"""Modules that are not imported: torch takes seconds, and neither configurations nor tokenizers
need it."""
TRIAL = "fedaudit.engine.loading.quarantine_process.open_model"
TOKENIZER = "fedaudit.engine.loading.quarantine_process.open_tokenizer"
RENDERING = "fedaudit.engine.loading.quarantine_process.render_message"
MESSAGE = "fedaudit's message"
"""What stands for a user's message in a rendered chat template."""


def check(folder: Path) -> None:
    """Raise InputError for a folder that is not a plain model, or exceeds the sandbox's limits.

    The error names the file that takes too much time or memory, or crashes the process. The
    built-in model is not tried, and a folder is tried once as long as its files do not change.
    """
    checkpoint.check(folder)
    if folder != nano.folder():
        _try_in_sandbox(TRIAL, folder.absolute(), _version(folder))


def check_tokenizer(folder: Path) -> None:
    """Raise InputError, as `check` does, for a folder whose tokenizer exceeds the limits."""
    checkpoint.check_files(folder)
    if folder != nano.folder():
        _try_in_sandbox(TOKENIZER, folder.absolute(), _version(folder))


def render_message(folder: Path) -> str | None:
    """Return one user's MESSAGE and the beginning of the answer, by a folder's chat template.

    None for a template that does not render it once. Raises InputError, as `check` does, for one
    that exceeds the limits.
    """
    try:
        text = sandbox.attempt(
            RENDERING, [str(folder), MESSAGE], seconds=SECONDS, without=BLOCKED_MODULES
        )
    except sandbox.TrialEnded as error:
        raise InputError(f"{folder} cannot be opened: {error}.") from None
    return text if isinstance(text, str) and text.count(MESSAGE) == 1 else None


@lru_cache(maxsize=64)
def _try_in_sandbox(trial: str, folder: Path, _version: tuple[int, ...]) -> None:
    try:
        for without in (BLOCKED_MODULES, ()):  # what fails without torch may work with it
            if sandbox.attempt(trial, str(folder), seconds=SECONDS, without=without):
                return
    except sandbox.TrialEnded as error:
        raise InputError(f"{folder} cannot be opened: {error}.") from None


def _version(folder: Path) -> tuple[int, ...]:
    """Return a key that changes if a model's files change."""
    stats = [(folder / name).stat() for name in checkpoint.files(folder)]
    return tuple(value for s in stats for value in (s.st_ino, s.st_mtime_ns, s.st_size))
