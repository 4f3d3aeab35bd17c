"""Failures of the machine, found in the errors that libraries make of them."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedaudit.api.errors import FedauditError, InputError, Interrupted

DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""What a disk says that is full or fails: a command may go on when it is mended."""
PLACES = frozenset(
    {
        *(errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENOTDIR, errno.EISDIR),
        *(errno.EROFS, errno.ENXIO),
    }
)
_RUST = re.compile(r"\(os error (\d+)\)")
"""The system's error in a message of a library in Rust, such as safetensors."""
_MEMORY = re.compile(
    r"(?i)can(?:no|')t allocate memory|cannot allocate|bad_alloc|out of memory|failed to map "
    r"segment|can't start new thread|resource temporarily unavailable"
)
ARITY = re.compile(r"([\w.<>]+)\(\) (?:takes|missing|got) ")
"""The message of a call that does not fit the function's signature, and the function's name."""
_USED = re.compile(r"(?m)^(VmPeak|VmData):\s+(\d+) kB$")
_CLOSE = 2**26
"""Bytes below a limit on memory from where on an allocation may have failed."""
NO_MEMORY = "The memory that this machine, or a limit, leaves is not enough for it."


def error_text(error: BaseException) -> str:
    """Return an error's message, or its class if a plugin's error raises one when it is asked."""
    try:
        return str(error)
    except Exception:
        return f"a {type(error).__name__} without a message"


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its class if it has none."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def system_error(error: BaseException) -> OSError | MemoryError | None:
    """Return the system's error in an error, or in one that it was raised from or while handling.

    Libraries turn what a full disk, a failing disk or too little memory says into errors of their
    own, some of which have nothing of it but the text.
    """
    for one in _chain(error):
        found = _stated(one)
        # Of errors that were handled meanwhile, only those count that no file's name explains.
        if found and (one is error or isinstance(found, MemoryError) or found.errno in DISK):
            return found
    return None


def _chain(error: BaseException) -> list[BaseException]:
    """Return an error, and the errors that it was raised from or while handling."""
    chain: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in chain:
        chain.append(following)
        following = following.__cause__ or following.__context__
    return chain


def _stated(error: BaseException) -> OSError | MemoryError | None:
    """Return the system's error that an error is, or has in its text."""
    if isinstance(error, OSError | MemoryError):
        number = getattr(error, "errno", None)
        if number is None and isinstance(error, OSError):
            return None
        return MemoryError() if number == errno.ENOMEM else error
    if isinstance(error, FedauditError):
        return None
    text = error_text(error)
    if found := _RUST.search(text):
        number = int(found[1])
        return MemoryError() if number == errno.ENOMEM else OSError(number, os.strerror(number))
    return MemoryError() if _MEMORY.search(text) else None


def machine_failure(error: BaseException) -> FedauditError | None:
    """Return a failure of the machine in one line: of its disk, of its memory, or of a place.

    None for other errors, which are a bug.
    """
    found = system_error(error)
    if isinstance(found, MemoryError):
        return InputError(NO_MEMORY)
    if found is None:
        return None
    if found.errno in DISK:
        name = f"{_short(found.filename)} cannot" if found.filename else "A file cannot"
        return Interrupted(f"{name} be read or written: {found.strerror}.")
    if found.filename is not None and found.errno in PLACES:
        return InputError(f"{_short(found.filename)} cannot be used: {found.strerror}.")
    return None


def near_memory_limit() -> bool:
    """Tell whether this process has come close to a limit on its memory (`ulimit -v`, `ulimit -d`).

    Libraries that catch a failed allocation while they are imported, as spaCy's do, fail later,
    with an error that has nothing of it.
    """
    import resource

    try:
        status = Path("/proc/self/status").read_text()
    except (OSError, MemoryError):
        return False
    used = {name: int(kib) * 1024 for name, kib in _USED.findall(status)}
    for limit, name in ((resource.RLIMIT_AS, "VmPeak"), (resource.RLIMIT_DATA, "VmData")):
        most, _ = resource.getrlimit(limit)
        if most != resource.RLIM_INFINITY and used.get(name, 0) > most - _CLOSE:
            return True
    return False


def is_machine_failure(error: BaseException) -> bool:
    """Tell whether an error, or one that it was raised from, is of a disk, a place or memory."""
    return any(isinstance(e, Interrupted) or _stated(e) is not None for e in _chain(error))


def write_error(path: Path, error: OSError | MemoryError) -> FedauditError:
    """Return the one line on a file that could not be written."""
    if isinstance(error, MemoryError):
        return InputError(f"{path} cannot be written: {NO_MEMORY}")
    kind = Interrupted if error.errno in DISK else InputError
    return kind(f"{path} cannot be written: {error.strerror or error}.")


@contextmanager
def raise_unwritable(path: Path) -> Iterator[None]:
    """Raise Interrupted or InputError when what is done to `path` inside cannot be written."""
    try:
        yield
    except FedauditError:
        raise
    except Exception as error:
        found = error if isinstance(error, OSError) else system_error(error)
        if found is None:
            raise
        raise write_error(path, found) from error


def _short(name: object) -> str:
    text = os.fsdecode(name) if isinstance(name, str | bytes | os.PathLike) else str(name)
    return f"{text[:200]}{'…' * (len(text) > 200)}"
