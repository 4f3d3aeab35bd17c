"""The cache of a model's answers: one sqlite file in the output folder.

An answer is a function of its question, so it is stored under a digest of all that it depends on:
target, settings, seed, prompt and number of samples. A batch of answers is written in one
transaction before it is used, so an audit that is killed loses at most the batch in progress.
"""

import errno
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from fedaudit.api.errors import FedauditError, InputError, UsageError
from fedaudit.api.records import Target
from fedaudit.config.options import build
from fedaudit.federation import adapters
from fedaudit.system.failures import raise_unwritable
from fedaudit.system.files import make_folder, open_regular

FILE = "answers.sqlite"
VERSION = 1
"""The version of the file's tables."""
MAX_SHARDS = 10_000
"""The most shards of an audit."""
SHARE = 16
"""A batch after the first is at most 1 / SHARE of what was asked before it."""
UNFINISHED = "unfinished batch"
"""The identity of answers to single requests of a batch that failed."""

_ANSWERS = "CREATE TABLE answers (key BLOB PRIMARY KEY, answer TEXT NOT NULL) WITHOUT ROWID"
_AUDIT = "CREATE TABLE audit (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
_ADD = "INSERT OR REPLACE INTO answers VALUES (?, ?)"
_SET = "INSERT OR REPLACE INTO audit VALUES (?, ?)"


class OtherQuestions(FedauditError):
    """A finished cache lacks the answer to a question of the audit.

    Not an InputError, which would stop only one attack: this stops all of them.
    """

    exit_code = InputError.exit_code


class BrokenCache(FedauditError):
    """A cache is corrupt; stops all attacks, so no InputError."""

    exit_code = InputError.exit_code


class ShardComplete(Exception):
    """All questions of a shard have answers; there is no report of a single shard."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard `number` (from 1) of the `of` shards into which an audit's questions are split."""

    number: int = 1
    of: int = 1

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def has(self, prompt: Sequence[int]) -> bool:
        """Tell whether a question belongs to this shard, which depends on its tokens only."""
        if self.of == 1:
            return True
        digest = blake2b(",".join(map(str, prompt)).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % self.of + 1 == self.number

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the shard that `i/n` names; UsageError unless 1 <= i <= n <= MAX_SHARDS."""
        number, _, count = text.partition("/")
        plain = number.isdecimal() and count.isdecimal() and len(text) < 20  # int() has a limit
        if plain and 1 <= int(number) <= int(count) <= MAX_SHARDS:
            return cls(int(number), int(count))
        raise UsageError(
            f"--shard is {text}; it takes i/n, as 1/4 for the first of four parts, of "
            f"{MAX_SHARDS:,} at most."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheHeader:
    """Identifies the audit that a cache belongs to."""

    run: str
    config: Mapping[str, str]
    """The settings on which the answers depend, by name, as JSON."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """The request of the audit, in the form that `fedaudit.audit.stored_request` reads."""
    shard: str | None = None
    device: str = "an unknown device"


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """What changes while a cache is written."""

    answers: int = 0
    seconds: float = 0.0
    finished: bool = False
    facts: Mapping[str, str] = field(default_factory=dict)


class AnswerCache:
    """The answers of one audit, or of one shard; the file is created with the first of them."""

    def __init__(
        self, folder: Path, header: CacheHeader, shard: Shard | None = None, *, merged: bool = False
    ) -> None:
        """Describe a new cache; use `load` for an existing one.

        A `merged` cache is one of all shards of an audit; it lies in a temporary file.
        """
        self.folder, self.header, self.merged = folder, header, merged
        self.shard = shard or Shard()
        """The part of the audit's questions whose answers belong here."""
        self.facts: dict[str, str] = {}
        """Facts on which the answers depend, known only during the run."""
        self.loaded_answers = 0
        """Number of answers in the cache when it was opened."""
        self.answers = 0
        """Number of answers in the cache now."""
        self.earlier_seconds = 0.0
        """Seconds that earlier processes worked on the cache."""
        self.finished = False
        self.parts: tuple[CacheHeader, ...] = ()
        """The headers of the shards that were merged."""
        self._since = time.monotonic()
        self._exists = False
        self._connection: sqlite3.Connection | None = None

    @property
    def path(self) -> Path:
        """Return the path of the cache's file."""
        return self.folder / FILE

    @property
    def covers_all(self) -> bool:
        """Tell whether all questions of the audit belong here, not only those of one shard."""
        return self.shard.of == 1

    @property
    def resumed(self) -> str | None:
        """Return the id of the run that is resumed; None for a new run or a merge."""
        return None if self.merged or not self.loaded_answers else self.header.run

    def record_fact(self, name: str, value: str) -> None:
        """Record a fact known only during the run; InputError if the cache has another value."""
        if self.facts.setdefault(name, value) != value:
            raise InputError(
                f"{self.folder} holds the answers of another run: {name} is {value[:16]} now, "
                f"{self.facts[name][:16]} then."
            )

    def get(self, identity: object, questions: Sequence[bytes]) -> list[Any | None]:
        """Return the answer to each question, None where it has to be asked.

        `identity` is everything besides the question on which the answers depend. Raises
        OtherQuestions if a finished cache lacks an answer, and BrokenCache for a corrupt one.
        """
        connection = self.opened()
        answers = [connection and self._read(connection, key) for key in _keys(identity, questions)]
        if self.finished and None in answers:
            raise OtherQuestions(
                f"{self.path} lacks the answers to some questions of this audit: remove it and "
                "begin again."
            )
        return answers

    def add(
        self, identity: object, questions: Sequence[bytes], values: Sequence[Any], answers: int
    ) -> None:
        """Write a batch of answers, any JSON values, and their number: all of it or nothing.

        Raises Interrupted when the disk is full; all earlier batches stay.
        """
        texts = [json.dumps(value, separators=(",", ":")) for value in values]
        rows = zip(_keys(identity, questions), texts, strict=True)
        with self._writing(answers=self.answers + answers) as connection:
            connection.executemany(_ADD, rows)

    def finish(self) -> None:
        """Mark the cache as complete, and leave one file that can be copied."""
        if not self.finished:
            with self._writing(finished=True) as connection:
                pass
            with _writable(self.path):
                connection.execute("PRAGMA journal_mode = DELETE")
        self.close()

    def remove(self) -> None:
        """Remove the file, once the report is written."""
        self.close()
        _unlink(self.path)
        self._exists = False

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def read_state(self, state: Mapping[str, Any], connection: sqlite3.Connection | None) -> None:
        """Go on with an existing file, through `connection` where it is to be written."""
        kept = build(_State, state, "state")
        self._exists, self._connection = True, connection
        self.finished, self.facts = kept.finished, dict(kept.facts)
        self.answers = self.loaded_answers = kept.answers
        self.earlier_seconds = kept.seconds

    def copy(self, part: "AnswerCache") -> None:
        """Add all answers of a shard to a merged cache."""
        if self._connection is None:
            self._connection = sqlite3.connect("", isolation_level=None)  # a file without a name
            self._connection.execute(_ANSWERS)
        try:
            source = part.opened()
            assert source is not None
            rows = source.execute("SELECT key, answer FROM answers")
            with _transaction(self._connection):
                self._connection.executemany(_ADD, rows)
        except sqlite3.Error as error:
            raise part.broken(error) from None
        part.close()
        self.answers += part.answers
        self.earlier_seconds += part.earlier_seconds
        self.facts |= part.facts

    def broken(self, why: object) -> BrokenCache:
        """Return the error for a corrupt cache, with the reason `why`."""
        name = "One of the shards" if self.merged else str(self.path)
        return BrokenCache(f"{name} is corrupt: {why}. Remove it and begin again.")

    def opened(self) -> sqlite3.Connection | None:
        """Return a connection to the file, for reading at least; None before there is one."""
        if self._connection is None and self._exists:
            self._connection = _connect(self.path, write=False)
        return self._connection

    def _read(self, connection: sqlite3.Connection, key: bytes) -> Any | None:
        try:
            row = connection.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
            return None if row is None else json.loads(row[0])
        except (sqlite3.Error, ValueError, TypeError, RecursionError) as error:
            raise self.broken(error) from None

    @contextmanager
    def _writing(self, **changes: Any) -> Iterator[sqlite3.Connection]:
        """Provide a transaction that also changes the state; the first one creates the file."""
        now = _State(
            answers=self.answers,
            seconds=self.earlier_seconds + time.monotonic() - self._since,
            finished=self.finished,
            facts=self.facts,
        )
        state, is_new = replace(now, **changes), not self._exists
        with _writable(self.path):
            if self._connection is None:
                if is_new:
                    self._create()
                self._connection = _connect(self.path, write=True)
            try:
                with _transaction(self._connection):
                    if is_new:
                        self._connection.execute(_ANSWERS)
                        self._connection.execute(_AUDIT)
                        self._connection.execute(f"PRAGMA user_version = {VERSION}")
                        self._connection.execute(_SET, ("header", json.dumps(asdict(self.header))))
                    yield self._connection
                    self._connection.execute(_SET, ("state", json.dumps(asdict(state))))
            except BaseException:
                if is_new:
                    self.remove()
                raise
        self._exists, self.answers, self.finished = True, state.answers, state.finished

    def _create(self) -> None:
        """Create the file, readable by its owner only, as are those that sqlite puts beside it."""
        make_folder(self.folder)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        os.close(os.open(self.path, flags, 0o600))


class UnfinishedBatch:
    """Answers to single requests of a batch that failed, kept beside the complete batches."""

    def __init__(self, cache: AnswerCache | None) -> None:
        self._cache = None if cache is None or cache.finished else cache

    def recall(self, name: str) -> Any | None:
        """Return the answer kept under a name; None if there is none."""
        return self._cache.get(UNFINISHED, [name.encode()])[0] if self._cache else None

    def keep(self, answers: Mapping[str, Any]) -> None:
        """Keep answers, any JSON values, by name."""
        if self._cache and answers:
            names = [name.encode() for name in answers]
            self._cache.add(UNFINISHED, names, list(answers.values()), len(answers))


def load(folder: Path, *, write: bool) -> AnswerCache | None:
    """Return the cache in a folder, None if there is none yet.

    Raises InputError for a file that is not a cache of this version.
    """
    path = folder / FILE
    try:
        open_regular(path).close()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    connection = None
    try:
        connection = _connect(path, write=False)  # what is not a cache stays as it is
        [version] = connection.execute("PRAGMA user_version").fetchone()
        if version == 0 and not connection.execute("SELECT name FROM sqlite_schema").fetchone():
            connection.close()
            if write:  # stopped before there was an answer to keep
                path.unlink()
            return None
        rows = dict(connection.execute("SELECT name, value FROM audit"))
        header = build(CacheHeader, json.loads(rows["header"]), "header")
        cache = AnswerCache(folder, header, Shard.parse(header.shard) if header.shard else None)
        if version != VERSION:
            raise ValueError(version)
        if write:
            connection.close()
            connection = _connect(path, write=True)
        cache.read_state(json.loads(rows["state"]), connection if write else None)
    except (sqlite3.Error, LookupError, ValueError, TypeError, RecursionError, UsageError):
        if connection is not None:
            connection.close()
        raise InputError(
            f"{path} was not written by this version of fedaudit, or is corrupt: remove it and "
            "begin again."
        ) from None
    if not write:
        connection.close()
    return cache


def remove(folder: Path) -> None:
    """Remove the cache in a folder, of any version, and the folder unless more is in it.

    Raises InputError for a file that is not a cache.
    """
    path = folder / FILE
    if os.path.lexists(path):
        if not _is_cache(path):
            raise InputError(
                f"{path} is not a cache of answers that fedaudit wrote, or damaged: move it away."
            )
        _unlink(path)
    with suppress(OSError):  # it is not there, or not empty
        folder.rmdir()


def _is_cache(path: Path) -> bool:
    try:
        open_regular(path).close()
        if not path.stat().st_size:  # of a process that was killed
            return True
        with closing(_connect(path, write=False)) as connection:
            [[header]] = connection.execute("SELECT value FROM audit WHERE name = 'header'")
        return isinstance(json.loads(header), dict)
    except (InputError, OSError, sqlite3.Error, ValueError, TypeError, RecursionError):
        return False


def _unlink(path: Path) -> None:
    for suffix in ("-wal", "-shm", ""):  # last what the others belong to
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def merged_cache(parts: Sequence[AnswerCache]) -> AnswerCache:
    """Return a cache with the answers of all shards of an audit."""
    merged = AnswerCache(parts[0].folder, parts[0].header, merged=True)
    merged.parts = tuple(part.header for part in parts)
    for part in parts:
        merged.copy(part)
    merged.finished = True
    return merged


def batch_size(before: int, least: int, most: int) -> int:
    """Return the size of the next batch, from `least` to `most`, after `before` was asked.

    Small at first, then growing: a killed audit loses the batch in progress, at most 1 / SHARE of
    what was asked before it. The size does not depend on the clock, so that a resumed audit puts
    the same questions into the same batches.
    """
    return max(1, min(most, max(least, before // SHARE)))


def target_identity(target: Target) -> str | None:
    """Return the SHA-256 of a target's adapter, its name if there is no file, None for the base."""
    if target.adapter is None:
        return None
    folder = Path(target.adapter)
    return adapters.fingerprint(folder) if (folder / adapters.WEIGHTS).is_file() else target.adapter


def _keys(identity: object, questions: Sequence[bytes]) -> list[bytes]:
    prefix = blake2b(repr(identity).encode(), digest_size=16).digest()
    return [blake2b(prefix + question, digest_size=16).digest() for question in questions]


def _connect(path: Path, *, write: bool) -> sqlite3.Connection:
    location = f"file:{quote(os.fsencode(path.absolute()))}?mode={'rw' if write else 'ro'}"
    connection = sqlite3.connect(location, uri=True, isolation_level=None)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")  # a shard may come from elsewhere
        if write:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def _writable(path: Path) -> Iterator[None]:
    """Raise Interrupted when the disk is full or fails, InputError when the file is protected."""
    with raise_unwritable(path):
        try:
            yield
        except sqlite3.OperationalError as error:
            code = _ERRNO.get(error.sqlite_errorcode & 0xFF)
            if code is None:
                raise InputError(f"{path} cannot be written: {error}.") from error
            raise OSError(code, os.strerror(code)) from error


_ERRNO = {sqlite3.SQLITE_FULL: errno.ENOSPC, sqlite3.SQLITE_IOERR: errno.EIO}
"""The system's errors behind those of sqlite after which an audit may go on later."""
