"""Locks: one process at a time works in a folder."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from fedaudit.api.errors import InputError
from fedaudit.system.failures import raise_unwritable
from fedaudit.system.files import check_target, new_folder
from fedaudit.system.staging import PREFIX

LOCK = ".fedaudit.lock"


def lock_beside(path: Path, busy: str) -> AbstractContextManager[None]:
    """Return the lock of a folder that may not be there yet: its file lies beside `path`."""
    return locked(path.parent, busy, of=path.name)


@contextmanager
def locked(folder: Path, busy: str, *, of: str = "") -> Iterator[None]:
    """Keep other processes out of the block that lock the same `folder`; InputError says `busy`.

    A folder has a lock for itself, and one for each name `of` what is in it. The lock is the
    kernel's: it goes with the process, however that ends. Its empty file goes after the block, and
    so do the folders that were made for it and are empty. A disk may have no locks.
    """
    path = folder / (f"{PREFIX}{of}.lock" if of else LOCK)
    with new_folder(folder):
        handle = _handle(path)
        try:
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise InputError(busy) from None
                except OSError:
                    break
                if _leads_to(path, handle):
                    break
                os.close(handle)  # anyone who had it has removed it meanwhile
                handle = _handle(path)
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
        finally:
            os.close(handle)


def _handle(path: Path) -> int:
    check_target(path)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with raise_unwritable(path):
        handle = os.open(path, flags, 0o600)
    if os.fstat(handle).st_size:
        os.close(handle)
        raise InputError(f"{path} is not a lock of fedaudit, whose locks are empty: move it away.")
    return handle


def _leads_to(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False
