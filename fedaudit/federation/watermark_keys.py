"""The owner's file of marks, the keys that find the watermarks of its documents. It is secret."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.watermark import Mark
from fedaudit.config.options import build
from fedaudit.system.files import Read, atomic_text, check_version, read_json, read_regular
from fedaudit.system.names import check_name

OWNER = "owner/watermark.json"
"""Where a simulation keeps the owner's file, below the federation's folder."""
SCHEMA_VERSION = "1.0"


def write(marks: Sequence[Mark], path: Path) -> None:
    """Write `marks` into a file that only its owner can read."""
    table = {"schema_version": SCHEMA_VERSION, "marks": [asdict(mark) for mark in marks]}
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_text(path, json.dumps(table, indent=2, ensure_ascii=False) + "\n", mode=0o600)


def read(path: Path, read_file: Read = read_regular) -> list[Mark]:
    """Return the marks in `path`; raises InputError for a file that holds none."""
    if path.is_dir():
        kept = next((name for name in (OWNER, Path(OWNER).name) if (path / name).is_file()), "")
        raise InputError(
            f"{path} is a folder: name the file of marks that `fedaudit watermark make` writes"
            + (f", {path / kept}." if kept else ".")
        )
    table = read_json(path, f"There is no watermark file {path}.", read_file)
    check_version(table, path, SCHEMA_VERSION)
    items: Any = table.get("marks") if isinstance(table, Mapping) else None
    if not isinstance(items, list) or not items:
        raise InputError(f"{path} holds no marks; `fedaudit watermark make` writes such a file.")
    for number, item in enumerate(items):  # what is refused below is shown, and must be no secret
        if not isinstance(item, Mapping) or not isinstance(item.get("secret"), Mapping):
            raise InputError(f"{path}: mark {number} has no table 'secret'.")
        if not isinstance(item.get("salt"), str) or not item["salt"]:
            raise InputError(f"{path}: mark {number} has no salt.")
        try:
            json.dumps([item["secret"], item.get("options")], allow_nan=False)
        except ValueError:
            raise InputError(f"{path}: mark {number} has a number that is not finite.") from None
    try:
        marks = [build(Mark, item, f"mark {number}") for number, item in enumerate(items)]
    except UsageError as error:
        raise InputError(f"{path}: {error}") from None
    ids = [mark.id for mark in marks]
    for mark_id in ids:
        check_name(mark_id, path, "the mark")
    if len(set(ids)) < len(ids):
        raise InputError(f"{path} holds two marks of one id.")
    for one, other in combinations(marks, 2):
        if (one.name, one.secret) == (other.name, other.secret):
            raise InputError(
                f"{path}: the marks {one.id} and {other.id} have one key, which would be tested "
                "twice: leave one of them out."
            )
    return marks
