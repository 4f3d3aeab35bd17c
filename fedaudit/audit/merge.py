"""Merging the shards of one audit: their caches together have every answer."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.api.errors import InputError, UsageError
from fedaudit.audit.fingerprint import RunFingerprint, describe_changes
from fedaudit.audit.stored_request import from_table
from fedaudit.cache.answers import FILE, AnswerCache, load, merged_cache

if TYPE_CHECKING:
    from fedaudit.audit.request import AuditRequest


def read_shards(folders: Sequence[Path]) -> list[AnswerCache]:
    """Return the shards in the given folders, in order: all of the audit's, each once.

    Raises InputError if one is missing, duplicated, unfinished or of another audit than the others,
    and UsageError if there is no folder at all.
    """
    if not folders:
        raise UsageError("Name the folders of all shards.")
    shards = [_load_shard(folder) for folder in folders]
    first = shards[0]
    for shard, folder in zip(shards, folders, strict=True):
        differing = describe_changes(
            {**shard.header.config, **shard.facts}, {**first.header.config, **first.facts}
        )
        if differing:
            raise InputError(f"{folder} is of another audit than {folders[0]}: {differing}.")
        if shard.shard.of != first.shard.of:
            raise InputError(f"{folder} is shard {shard.shard}, and {folders[0]} {first.shard}.")
    return _each_once(shards)


def merged_request(
    shards: Sequence[AnswerCache], device: str, servers: Sequence[str] = ()
) -> "AuditRequest":
    """Return the request of the whole audit, to run on `device` of this machine.

    Raises InputError for a cache without a request, and UsageError for one that asked a
    server which is not among `servers`.
    """
    request = from_table(shards[0].header.request, shards[0].folder, servers)
    return replace(request, device=device, engine="local")


def merged_answers(
    fingerprint: RunFingerprint,
    shards: Sequence[AnswerCache],
) -> AnswerCache:
    """Return the answers of all shards.

    Raises InputError if the audited model or data have changed since.
    """
    first = shards[0]
    differing = describe_changes(fingerprint.facts, first.header.config)
    if differing:
        raise InputError(f"What was asked of {first.folder} has changed since: {differing}.")
    return merged_cache(shards)


def _each_once(shards: Sequence[AnswerCache]) -> list[AnswerCache]:
    by_number: dict[int, AnswerCache] = {}
    for shard in shards:
        if duplicate := by_number.get(shard.shard.number):
            raise InputError(f"{shard.folder} and {duplicate.folder} are both shard {shard.shard}.")
        by_number[shard.shard.number] = shard
    numbers = range(1, shards[0].shard.of + 1)
    if missing := [f"{number}/{len(numbers)}" for number in numbers if number not in by_number]:
        tail = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise InputError(f"There is no shard {', '.join(missing[:3])}{tail}: all parts are needed.")
    return [by_number[number] for number in numbers]


def _load_shard(folder: Path) -> AnswerCache:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: name the folder of a shard.")
    stored = load(folder, write=False)
    if stored is None:
        raise InputError(f"{folder} holds no shard: there is no {FILE} in it.")
    if stored.header.shard is None:
        raise InputError(f"{folder} holds a whole audit's answers, not a shard's.")
    if not stored.finished:
        raise InputError(f"Shard {stored.shard} in {folder} is not finished: go on with --resume.")
    return stored
