"""Commitments to marks: published before training, so that no key can be chosen afterwards.

A commitment is the SHA-256 of a mark, of all settings that affect its test, and of a random salt.
It reveals nothing about the mark, and no one can find another mark with the same commitment.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.api.watermark import Mark
from fedaudit.config.options import read_record
from fedaudit.system.files import Read, atomic_text, read_regular
from fedaudit.system.names import check_name

SCHEMA_VERSION = "1.0"
NAME = "commitments.json"
"""The public file of commitments, in a federation's folder and elsewhere."""
SCHEME = "fedaudit mark 1"
"""A label that is hashed with each mark, so that no other hashed text can pass for a mark."""
SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Commitment:
    """The public commitment to one mark."""

    id: str
    plugin: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Commitments:
    """commitments.json: public, and only as good as the proof of when others have seen it."""

    schema_version: str = SCHEMA_VERSION
    made: str = ""
    """When the file says it was made: ISO 8601 with a time zone. This is not verified.

    Empty in a simulation's file, which is the same for each run: only a ledger can vouch for that.
    """
    commitments: tuple[Commitment, ...] = ()


def digest(mark: Mark, settings: Mapping[str, Any]) -> str:
    """Return the SHA-256 that commits to a mark, its id, its salt and all of its settings.

    `settings` are the plugin's options with the defaults spelled out. Raises ValueError for a mark
    without a salt, whose secret could be found by trying if it is short.
    """
    if not mark.salt:
        raise ValueError(f"The mark {mark.id} has no salt.")
    table = {
        "scheme": SCHEME,
        "salt": mark.salt,
        "id": mark.id,
        "plugin": mark.name,
        "settings": settings,
        "secret": mark.secret,
    }
    return hashlib.sha256(canonical(table)).hexdigest()


def canonical(table: Any) -> bytes:
    """Return canonical JSON (sorted keys, no spaces, UTF-8) of `table` as read back from JSON."""
    read_again = json.loads(json.dumps(table, allow_nan=False))
    text = json.dumps(read_again, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def commitment(mark: Mark, settings: Mapping[str, Any]) -> Commitment:
    """Return the public commitment to a mark."""
    return Commitment(id=mark.id, plugin=mark.name, sha256=digest(mark, settings))


def seeded_salt(seed: int, index: int) -> str:
    """Return the salt of a mark made from a seed; the salt is only as secret as the seed."""
    return hashlib.sha256(f"salt {seed} {index}".encode()).hexdigest()


def write(commitments: Commitments, destination: Path) -> None:
    """Write commitments to the file `destination`, or into that folder as commitments.json."""
    path = destination / NAME if destination.is_dir() else destination
    atomic_text(path, json.dumps(asdict(commitments), indent=2, ensure_ascii=False) + "\n")


def read(path: Path, read_file: Read = read_regular) -> Commitments:
    """Return the commitments in `path`; raises InputError for a file that holds none."""
    missing = f"There is no file of commitments {path}."
    commitments = read_record(Commitments, path, SCHEMA_VERSION, missing, read_file)
    _check(commitments, path)
    return commitments


def _check(commitments: Commitments, path: Path) -> None:
    if not commitments.commitments:
        raise InputError(
            f"{path} holds no commitments; `fedaudit watermark commitment` writes such a file."
        )
    ids = [entry.id for entry in commitments.commitments]
    if len(set(ids)) < len(ids):
        raise InputError(f"{path} holds two commitments for one mark.")
    for entry in commitments.commitments:
        check_name(entry.id, path, "the mark")
        if not SHA256.fullmatch(entry.sha256):
            raise InputError(f"{path}: the commitment of {entry.id} is not a SHA-256.")
    if commitments.made and parse_time(commitments.made) is None:
        raise InputError(f"{path}: {commitments.made!r} is not a time with a time zone.")


def parse_time(text: str) -> datetime | None:
    """Return an ISO 8601 time with a time zone; None for any other text."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else None
