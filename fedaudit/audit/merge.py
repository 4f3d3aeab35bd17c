"""The shards of one audit as one: their journals together hold every answer."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.api.errors import InputError, UsageError
from fedaudit.audit import environment
from fedaudit.audit.fingerprint import RunFingerprint, describe_changes
from fedaudit.audit.resume import stored_shard
from fedaudit.audit.stored_request import from_table
from fedaudit.journal import journal
from fedaudit.journal.journal import FILE
from fedaudit.journal.shards import AuditJournal, ShardJournal
from fedaudit.journal.spot_checks import SpotCheck

if TYPE_CHECKING:
    from fedaudit.audit.request import AuditRequest


def read_shards(places: Sequence[Path]) -> list[ShardJournal]:
    """Return the shards in some folders in their order, all of them and each once.

    Raises InputError where one is missing, there twice, not finished or of another audit than the
    others, and UsageError for no folder at all.
    """
    if not places:
        raise UsageError("Name the folders of all shards.")
    parts = [_part(place) for place in places]
    first = parts[0]
    for part, place in zip(parts, places, strict=True):
        table, other = part.journal.header, first.journal.header
        differing = describe_changes(
            {**table.get("config", {}), **table.get("facts", {})},
            {**other.get("config", {}), **other.get("facts", {})},
        )
        if differing:
            raise InputError(f"{place} is of another audit than {places[0]}: {differing}.")
        if part.shard.of != first.shard.of:
            raise InputError(f"{place} is shard {part.shard}, and {places[0]} {first.shard}.")
    return _each_once(parts)


def merged_request(parts: Sequence[ShardJournal], device: str) -> "AuditRequest":
    """Return what the whole audit is asked, here and on a `device` of this machine.

    Raises InputError for a journal that holds no request.
    """
    kept = parts[0].journal
    request = from_table(kept.header.get("request", {}), kept.place)
    return replace(request, device=device, engine="local")


def merged_journals(
    request: "AuditRequest",
    fingerprint: RunFingerprint,
    parts: Sequence[ShardJournal],
    share: float,
) -> AuditJournal:
    """Return all answers of the shards, of which a `share` is asked again.

    Raises InputError where what is audited has changed since.
    """
    first = parts[0].journal
    differing = describe_changes(fingerprint.facts, first.header.get("config", {}))
    if differing:
        raise InputError(f"What was asked of {first.place} has changed since: {differing}.")
    recheck = SpotCheck(share, environment.machine_facts(request.device))
    return AuditJournal(tuple(parts), merged=True, recheck=recheck)


def _each_once(parts: Sequence[ShardJournal]) -> list[ShardJournal]:
    found: dict[int, ShardJournal] = {}
    for part in parts:
        if other := found.get(part.shard.number):
            raise InputError(
                f"{part.journal.place} and {other.journal.place} are both shard {part.shard}."
            )
        found[part.shard.number] = part
    numbers = range(1, parts[0].shard.of + 1)
    if missing := [f"{number}/{len(numbers)}" for number in numbers if number not in found]:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise InputError(f"There is no shard {', '.join(missing[:3])}{more}: all parts are needed.")
    return [found[number] for number in numbers]


def _part(place: Path) -> ShardJournal:
    kept = journal.load(place, write=False)
    if kept is None:
        raise InputError(f"{place} holds no shard: there is no {FILE} in it.")
    if kept.header.get("shard") is None:
        raise InputError(f"{place} holds a whole audit's answers, not a shard's.")
    if not kept.finished:
        raise InputError(
            f"Shard {kept.header['shard']} in {place} is not finished: go on with --resume."
        )
    part = stored_shard(kept)
    assert part is not None
    return ShardJournal(kept, part)
