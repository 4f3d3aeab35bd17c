"""Folders in which files are written before they take their place, and their removal.

A stage is called `.fedaudit-PID-RANDOM` and holds a mark: the file `.stage`, which repeats that
name. Only a stage whose mark is right and whose process has ended is removed, or an empty one.
"""

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = ".fedaudit-"
"""The beginning of the names of stages and locks; users have no files of such names."""
MARK = ".stage"
_STAGE = re.compile(re.escape(PREFIX) + r"([0-9]{1,10})-[0-9a-f]{16}")
_open_stages: dict[str, Path] = {}
"""The stages that this process is writing to, by name."""


@contextmanager
def stage(parent: Path) -> Iterator[Path]:
    """Give a new folder in `parent` that only its owner can read; it goes after the block."""
    folder = parent.absolute() / f"{PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
    _open_stages[folder.name] = folder
    try:
        folder.mkdir(0o700)
        (folder / MARK).write_bytes(folder.name.encode())
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _open_stages.pop(folder.name, None)


def remove_open_stages() -> None:
    """Remove the stages of this process, before it ends.

    One is left if Ctrl-C comes while it is being removed.
    """
    for folder in list(_open_stages.values()):
        shutil.rmtree(folder, ignore_errors=True)
    _open_stages.clear()


def remove_stale_stages(folder: Path, *, below: bool = False) -> None:
    """Remove the stages that killed processes left in a folder, and in all folders `below` it."""
    for place, names, _ in os.walk(folder):
        for name in [name for name in names if name.startswith(PREFIX)]:
            names.remove(name)
            _remove_stale_stage(Path(place, name))
        if not below:
            return


def _remove_stale_stage(path: Path) -> None:
    found = _STAGE.fullmatch(path.name)
    if not found or path.is_symlink() or path.name in _open_stages:
        return
    pid = int(found[1])
    if pid != os.getpid() and _is_running(pid):
        return
    with suppress(OSError):
        path.rmdir()  # its process was killed before it wrote the mark
    with suppress(OSError):
        mark = path / MARK
        if not mark.is_symlink() and mark.is_file():
            with mark.open("rb") as file:
                if file.read(len(path.name) + 1) == path.name.encode():
                    shutil.rmtree(path, ignore_errors=True)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # another user's
        return True
    return True
