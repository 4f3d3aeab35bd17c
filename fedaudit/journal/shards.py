"""What a process asks and keeps of an audit: all questions or one shard's, and its journals."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from fedaudit.api.errors import UsageError
from fedaudit.api.records import Target
from fedaudit.federation import adapters
from fedaudit.journal.journal import Journal, JournalPass

MAX_SHARDS = 10_000
"""The most shards of an audit."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard `number` (from 1) of the `of` shards into which an audit's questions are split."""

    number: int = 1
    of: int = 1

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def has(self, prompt: Sequence[int]) -> bool:
        """Tell whether a question belongs to this shard, which depends on its tokens only."""
        return self.of == 1 or shard_number(prompt, self.of) == self.number


def shard_number(prompt: Sequence[int], shard_count: int) -> int:
    """Return the number, from 1 on, of the shard that a question belongs to."""
    digest = blake2b(",".join(map(str, prompt)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % shard_count + 1


def shard(text: str) -> Shard:
    """Return the shard that `i/n` names; UsageError unless 1 <= i <= n <= MAX_SHARDS."""
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
    """A journal and the shard whose answers it holds."""

    journal: Journal
    shard: Shard = Shard()

    def open_pass(self, identity: object) -> JournalPass:
        """Return the answers of the next pass of its kind."""
        return self.journal.open_pass(identity)


@dataclass(frozen=True, slots=True)
class AuditJournal:
    """The journals of an audit: its own, or in a merge those of all shards."""

    shards: tuple[ShardJournal, ...]
    merged: bool = False
    """Whether the journals are finished ones of shards that are merged."""

    def record_fact(self, name: str, value: str) -> None:
        """Record a fact known only during the run; InputError if a journal has another value."""
        for shard_journal in self.shards:
            shard_journal.journal.record_fact(name, value)

    @property
    def answers(self) -> int:
        """Return the number of answers in the journals."""
        return sum(s.journal.answers for s in self.shards)

    @property
    def seconds(self) -> float:
        """Return the seconds that all earlier runs took together."""
        return sum(s.journal.earlier_seconds for s in self.shards)

    @property
    def covers_all(self) -> bool:
        """Tell whether the journals cover all questions, not only those of one shard."""
        return len(self.shards) == self.shards[0].shard.of

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
        """Return the id of the run that is resumed; None for a new run or a merge."""
        first = self.shards[0].journal
        return None if self.merged or not first.loaded_answers else str(first.header.get("run"))


def target_identity(target: Target) -> str | None:
    """Return the SHA-256 of a target's adapter, its name if there is no file, None for the base."""
    if target.adapter is None:
        return None
    folder = Path(target.adapter)
    return adapters.fingerprint(folder) if (folder / adapters.WEIGHTS).is_file() else target.adapter
