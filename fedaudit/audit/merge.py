"""The shards of one audit as one: their journals together hold every answer."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.api.errors import InputError, UsageError
from fedaudit.audit import environment, fingerprint
from fedaudit.audit.target import AuditTarget
from fedaudit.journal import journal
from fedaudit.journal.journal import FILE, Journal
from fedaudit.journal.shards import AuditJournal, ShardJournal, shard
from fedaudit.journal.spot_checks import SHARE, SpotCheck

if TYPE_CHECKING:
    from fedaudit.audit.request import AuditRequest

ASIDE = ("--out", "--json", "--shard", "--device", "--engine", "--part", "--recheck")
"""Options of a shard's command that the merged audit has of its own; each takes a value."""
COMMANDS = ("extract", "infer", "memorize")
"""What can be shared out: a journal from elsewhere has no other command repeated."""
FLAGS = ("--resume", "--reveal", "--quiet")


@contextmanager
def merged_journals(
    request: "AuditRequest", audited: AuditTarget, places: Sequence[Path], share: float = SHARE
) -> Iterator[AuditJournal]:
    """Give all answers of the shards in some folders, of which a `share` is asked again.

    Raises InputError where a shard is missing, there twice, not finished or of another audit than
    the others, and where what is audited has changed since.
    """
    parts = _parts(places)
    differing = fingerprint.describe_changes(
        fingerprint.run_facts(request, audited), parts[0].journal.header.get("config", {})
    )
    if differing:
        raise InputError(f"What was asked of {places[0]} has changed since: {differing}.")
    recheck = SpotCheck(share, environment.machine_facts(request.device))
    yield AuditJournal(tuple(parts), merged=True, recheck=recheck)


def words(places: Sequence[Path]) -> list[str]:
    """Return the command of the whole audit, without where it writes to.

    Raises InputError for a journal that says another command.
    """
    command, *rest = _parts(places)[0].journal.header.get("words") or [""]
    if command not in COMMANDS:
        raise InputError(f"{places[0]} is of the command {command!r}, which has no shards.")
    given, found = iter(rest), [command]
    for word in given:
        if word in ASIDE:
            next(given, None)
        elif word not in FLAGS and not word.startswith(tuple(f"{name}=" for name in ASIDE)):
            found.append(word)
    return found


def _parts(places: Sequence[Path]) -> list[ShardJournal]:
    """Return the shards in their order, all of them and each once."""
    if not places:
        raise UsageError("Name the folders of all shards.")
    parts = [_part(place) for place in places]
    first = parts[0]
    for part, place in zip(parts, places, strict=True):
        table, other = part.journal.header, first.journal.header
        differing = fingerprint.describe_changes(
            {**table.get("config", {}), **table.get("facts", {})},
            {**other.get("config", {}), **other.get("facts", {})},
        )
        if differing:
            raise InputError(f"{place} is of another audit than {places[0]}: {differing}.")
        if part.shard.of != first.shard.of:
            raise InputError(f"{place} is shard {part.shard}, and {places[0]} {first.shard}.")
    return _each_once(parts)


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
    found: Journal | None = journal.load(place, write=False)
    if found is None:
        raise InputError(f"{place} holds no shard: there is no {FILE} in it.")
    if found.header.get("shard") is None:
        raise InputError(f"{place} holds a whole audit's answers, not a shard's.")
    if not found.finished:
        raise InputError(
            f"Shard {found.header['shard']} in {place} is not finished: go on with --resume."
        )
    try:
        return ShardJournal(found, shard(found.header["shard"]))
    except UsageError:
        raise InputError(f"{place} is of a shard that cannot be: it says no i/n.") from None
