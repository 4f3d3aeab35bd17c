"""What a journal says of itself, whose key opens it, and who may write to it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

from fedaudit.api.errors import InputError, UsageError
from fedaudit.config.options import build
from fedaudit.journal.encryption import Frame
from fedaudit.system.files import read_regular

FILE = "journal.bin"
KEY = 32
"""Bytes of a key."""
LARGEST = 2**24
"""Bytes that a journal may say of itself: the settings of 10,000 clients have a few million."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalHeader:
    """Whose journal this is."""

    run: str
    config: Mapping[str, str]
    """What the answers depend on, by name, as JSON spells it."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """What was asked of the audit, as `fedaudit.audit.stored_request` reads it."""
    shard: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    """What the answers depend on and was known late."""
    device: str | None = None
    key: str | None = None
    """What tells the journal's key from others."""


def read(frame: Frame, path: Path) -> dict[str, Any]:
    """Return what a journal says of itself; raises InputError where something else stands there."""
    try:
        if frame.length > LARGEST:
            raise ValueError
        table: dict[str, Any] = json.loads(frame.begin)
        build(JournalHeader, table, "header")
    except (ValueError, RecursionError, UsageError):
        raise InputError(f"{path} is no journal of this version of fedaudit.") from None
    return table


def journal_key(path: Path, digest: str | None) -> bytes:
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
