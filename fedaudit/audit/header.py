"""What a journal says of itself, whose key opens it, and who may write to it."""

import json
from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

from fedaudit.audit.sealed import Frame
from fedaudit.errors import InputError
from fedaudit.files import read_regular

FILE = "journal.bin"
KEY = 32
"""Bytes of a key."""
LARGEST = 2**24
"""Bytes that a journal may say of itself: the settings of 10,000 clients have a few million."""


def read(frame: Frame, path: Path) -> dict[str, Any]:
    """Return what a journal says of itself; raises InputError where something else stands there."""
    try:
        if frame.length > LARGEST:
            raise ValueError
        table = json.loads(frame.begin)
        if not isinstance(table, dict) or not _fits(table):
            raise ValueError
    except (ValueError, RecursionError):
        raise InputError(f"{path} is no journal: its header is not one of fedaudit's.") from None
    return table


def _texts(value: object) -> bool:
    some = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [0]
    return all(isinstance(one, str) for one in some)


def _text(value: object) -> bool:
    return value is None or isinstance(value, str)


_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("run", "shard", "device", "key"), _text),
    "words": lambda value: value is None or (isinstance(value, list) and _texts(value)),
    **dict.fromkeys(("config", "facts"), lambda value: isinstance(value, dict) and _texts(value)),
}


def _fits(table: Mapping[str, Any]) -> bool:
    """Tell whether all that is read of a header is of the kind that it should be."""
    whole = {"config": {}, "facts": {}, **table}
    return all(fits(whole.get(name)) for name, fits in _FIELDS.items())


def key(path: Path, digest: str | None) -> bytes:
    """Return the key: the wrong one would make all records look torn."""
    try:
        own = bytes.fromhex(read_regular(path, 1024).decode("ascii"))
    except (OSError, ValueError):
        own = b""
    if len(own) != KEY or digest_of(own) != digest:
        raise InputError(
            f"{path.parent / FILE} cannot be read without its key {path}: remove it to begin again."
        )
    return own


def digest_of(key: bytes) -> str:
    """Return what tells a key from others and does not give it away."""
    return blake2b(key, digest_size=8).hexdigest()


def locked(file: BinaryIO, place: Path) -> None:
    """Keep other processes from the file; the lock goes with this one."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise InputError(f"Another process is auditing into {place}.") from None
