"""The header of a journal, its key, and the lock for writing to it."""

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
"""The most bytes of a header; the settings of 10,000 clients take a few million."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalHeader:
    """Identifies the audit that a journal belongs to."""

    run: str
    config: Mapping[str, str]
    """The settings on which the answers depend, by name, as JSON."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """The request of the audit, in the form that `fedaudit.audit.stored_request` reads."""
    shard: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    """Further facts on which the answers depend, known only during the run."""
    device: str | None = None
    key: str | None = None
    """A digest of the journal's key."""


def read(frame: Frame, path: Path) -> dict[str, Any]:
    """Return the header of a journal as a table; raises InputError where it is invalid."""
    try:
        if frame.length > LARGEST:
            raise ValueError
        table: dict[str, Any] = json.loads(frame.begin)
        build(JournalHeader, table, "header")
    except (ValueError, RecursionError, UsageError):
        raise InputError(f"{path} is no journal of this version of fedaudit.") from None
    return table


def journal_key(path: Path, digest: str | None) -> bytes:
    """Return the key, checked by its digest, as a wrong key makes every record look torn."""
    try:
        key = bytes.fromhex(read_regular(path, 1024).decode("ascii"))
    except (OSError, ValueError):
        key = b""
    if len(key) != KEY or digest_of(key) != digest:
        raise InputError(
            f"{path.parent / FILE} cannot be read without its key {path}: remove it to begin again."
        )
    return key


def digest_of(key: bytes) -> str:
    """Return a digest that identifies a key and does not reveal it."""
    return blake2b(key, digest_size=8).hexdigest()


def locked(file: BinaryIO, folder: Path) -> None:
    """Lock the file against other processes until this process ends."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise InputError(f"Another process is auditing into {folder}.") from None
