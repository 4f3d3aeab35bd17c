"""Files of safetensors: the header is checked before a library, or a hash, reads the file."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from fedaudit.api.errors import FedauditError, InputError, Interrupted
from fedaudit.system.documents import parse_json, too_large
from fedaudit.system.failures import DISK, NO_MEMORY, system_error
from fedaudit.system.files import LARGEST, open_regular

MOST_DIMENSIONS = 16
"""Dimensions of a tensor that are allowed; models have up to five, and torch fails above 64."""

_counts: dict[tuple[int, ...], int] = {}
"""The number of tensors of every file that was checked, as long as it does not change."""


@contextmanager
def reading_tensors(path: Path, largest: int = LARGEST) -> Iterator[None]:
    """Check the header of a file of tensors before the block reads the file.

    Raises InputError where the file is broken, and as `machine_failure` for other errors.
    """
    try:
        check_header(path, largest)
        yield
    except FedauditError:
        raise
    except Exception as error:
        found = system_error(error)
        if isinstance(found, MemoryError):
            raise InputError(f"{path} cannot be read: {NO_MEMORY}") from None
        if found is not None and found.errno in DISK:
            raise Interrupted(f"{path} cannot be read: {found.strerror}.") from None
        raise _invalid(path, str(error) or type(error).__name__) from None


def check_header(path: Path, largest: int = LARGEST) -> int:
    """Return the number of tensors in a safetensors file, by its header.

    Raises InputError for a header that is broken, that takes too much memory once parsed, or that
    does not describe the whole file, and for a file of more than `largest` bytes; OSError as
    `open_regular` does.
    """
    count = _counts.get(_identity(path.stat())) if path.exists() else None
    if count is None:
        with open_regular(path) as file:
            count = check_open_header(file, path, largest)
    elif path.stat().st_size > largest:
        raise too_large(path, largest)
    return count


def check_open_header(file: BinaryIO, path: Path, largest: int = LARGEST) -> int:
    """Check the header of an open file as `check_header` does, and leave it at its beginning."""
    stat = os.fstat(file.fileno())
    size = stat.st_size
    if size > largest:
        raise too_large(path, largest)
    length = int.from_bytes(file.read(8), "little")
    if not 1 < length <= size - 8:
        raise _invalid(path, "it has no header")
    header = parse_json(file.read(length), f"The header of {path}")
    file.seek(0)
    try:
        tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
        described = max((_end(entry) for entry in tensors.values()), default=0)
        dimensions = max((len(entry["shape"]) for entry in tensors.values()), default=0)
    except (AttributeError, LookupError, TypeError, ValueError):
        raise _invalid(path, "its header describes no tensors") from None
    if dimensions > MOST_DIMENSIONS:
        raise _invalid(path, f"it has a tensor of {dimensions:,} dimensions")
    if 8 + length + described != size:
        raise _invalid(
            path, f"it has {size:,} bytes, and its header describes {8 + length + described:,}"
        )
    _counts[_identity(stat)] = len(tensors)
    return len(tensors)


def _identity(stat: os.stat_result) -> tuple[int, ...]:
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def _end(entry: Any) -> int:
    begin, end = entry["data_offsets"]
    return int(end) if begin <= end else int(begin)


def _invalid(path: Path, reason: str) -> InputError:
    return InputError(f"{path} is not a valid safetensors file ({reason.splitlines()[0][:200]}).")
