"""What an audit asks and keeps: all of its questions or one shard's, and its journals."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from fedaudit.api.errors import UsageError
from fedaudit.api.records import Target
from fedaudit.federation import adapters
from fedaudit.journal.journal import Journal, JournalPass
from fedaudit.journal.spot_checks import SpotCheck

MAX_SHARDS = 10_000
"""Shards that an audit may have."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard `number` of `of`, counted from 1, of the questions of an audit."""

    number: int = 1
    of: int = 1

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def has(self, prompt: Sequence[int]) -> bool:
        """Tell whether a question belongs to this shard: its tokens alone decide."""
        return self.of == 1 or shard_number(prompt, self.of) == self.number


def shard_number(prompt: Sequence[int], shard_count: int) -> int:
    """Return the number, from 1 on, of the shard that a question belongs to."""
    digest = blake2b(",".join(map(str, prompt)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % shard_count + 1


def shard(text: str) -> Shard:
    """Return what `i/n` means; raises UsageError unless i is from 1 to n, n to MAX_SHARDS."""
    number, _, count = text.partition("/")
    plain = number.isdecimal() and count.isdecimal() and len(text) < 20  # int() refuses long ones
    if plain and 1 <= int(number) <= int(count) <= MAX_SHARDS:
        return Shard(int(number), int(count))
    raise UsageError(
        f"--shard is {text}; it takes i/n, as 1/4 for the first of four parts, of {MAX_SHARDS:,} "
        "at most."
    )


class ShardComplete(Exception):
    """All questions of a shard have answers; there is no report of a single shard."""


@dataclass(frozen=True, slots=True)
class ShardJournal:
    """A journal and the questions that it is about."""

    journal: Journal
    shard: Shard = Shard()

    def open_pass(self, identity: object) -> JournalPass:
        """Return the answers of the next pass of its kind."""
        return self.journal.open_pass(identity)


@dataclass(frozen=True, slots=True)
class AuditJournal:
    """The journals of an audit: its own, or those of all its shards when they are merged."""

    shards: tuple[ShardJournal, ...]
    merged: bool = False
    """Whether they are the finished journals of shards."""
    recheck: SpotCheck | None = None
    """The check that asks a sample of merged shards' questions again."""

    def record_fact(self, name: str, value: str) -> None:
        """Record a fact that became known late; InputError where a journal has another value."""
        for shard_journal in self.shards:
            shard_journal.journal.record_fact(name, value)

    @property
    def answers(self) -> int:
        """Return how many answers are kept."""
        return sum(s.journal.answers for s in self.shards)

    @property
    def seconds(self) -> float:
        """Return the seconds that all earlier runs took."""
        return sum(s.journal.earlier_seconds for s in self.shards)

    @property
    def covers_all(self) -> bool:
        """Tell whether they cover all questions, and not only those of one shard."""
        return len(self.shards) == self.shards[0].shard.of

    def finish_check(self) -> None:
        """Finish the check once all is asked; raises ShardComplete where that is only one shard."""
        if not self.covers_all:
            raise ShardComplete
        if self.recheck:
            self.recheck.finish()

    def finish(self) -> None:
        """Mark every journal as complete."""
        for shard_journal in self.shards:
            shard_journal.journal.finish()

    def remove(self) -> None:
        """Remove the journals, once the report is written."""
        for shard_journal in self.shards:
            shard_journal.journal.remove()

    @property
    def resumed(self) -> str | None:
        """Return the id of the run that is resumed; None for a new or a merged one."""
        first = self.shards[0].journal
        return None if self.merged or not first.loaded_answers else str(first.header.get("run"))


def target_identity(target: Target) -> str | None:
    """Return the SHA-256 of a target's adapter, its name where there is no file; None: the base."""
    if target.adapter is None:
        return None
    folder = Path(target.adapter)
    return adapters.fingerprint(folder) if (folder / adapters.WEIGHTS).is_file() else target.adapter
