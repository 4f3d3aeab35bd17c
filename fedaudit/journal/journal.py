"""A journal of a model's answers, written while an audit runs: a killed audit resumes from it.

The file begins with a line that names the format, followed by frames (`encryption`). The first
frame is the header, JSON that identifies the audit; all others are records, encrypted under a key
stored beside the file. A record holds the answers to one piece of one pass; see docs/journal.md.
"""

import json
import os
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

from fedaudit.api.errors import FedauditError, InputError
from fedaudit.journal import encryption, header
from fedaudit.journal.encryption import NAME, AnswerRecord
from fedaudit.system.failures import raise_unwritable
from fedaudit.system.files import atomic_text, make_folder, open_regular

FILE, KEY = header.FILE, "journal.key"
FIRST = b"fedaudit journal 2\n"
EARLIER = (b"fedaudit journal 1\n",)
"""First lines of earlier formats, whose names of questions are no longer known."""
SYNC = 5.0
"""Seconds between syncs to the disk; records are written to the file immediately."""

_END = b"\0" * NAME
"""The name of the pass in the final record of a complete journal."""


class OtherQuestions(FedauditError):
    """The journal holds answers to other questions than the audit asks.

    Not an InputError, which would stop only one attack: this stops all of them.
    """

    exit_code = InputError.exit_code


class BrokenJournal(FedauditError):
    """A journal has content that fedaudit never writes; stops all attacks, so no InputError."""

    exit_code = InputError.exit_code


class Journal:
    """An append-only file of answers; it is created with the first of them.

    A record is written to the file with one write before its answers are used. Anything after the
    last complete record (a torn write, the zeros of a lost page) is cut off before the next record
    is written. Those questions are asked again, as answers are functions of their questions.
    """

    def __init__(self, folder: Path, header_fields: Mapping[str, Any]) -> None:
        self.place, self.header = folder, dict(header_fields)
        self.loaded_answers = 0
        """Number of answers in the journal when it was opened."""
        self.answers = 0
        """Number of answers in the journal now."""
        self.earlier_seconds = 0.0
        """Seconds that earlier processes worked on the journal."""
        self.finished = False
        self._since, self._session = time.monotonic(), secrets.randbits(32)
        self._key = b""
        self._file: BinaryIO | None = None
        self._end, self._synced = 0, 0.0
        self._torn = False
        self._pieces: dict[tuple[bytes, int], list[tuple[int, int]]] = defaultdict(list)
        self._passes: Counter[bytes] = Counter()

    @property
    def path(self) -> Path:
        """Return the path of the journal's file."""
        return self.place / FILE

    def open_pass(self, identity: object) -> "JournalPass":
        """Return the answers of one pass; equal passes are distinguished by their order."""
        name = blake2b(repr(identity).encode(), digest_size=NAME).digest()
        self._passes[name] += 1
        return JournalPass(self, name, self._passes[name] - 1)

    def record_fact(self, name: str, value: str) -> None:
        """Record a fact known only during the run; InputError if the journal has another value."""
        facts = self.header.setdefault("facts", {})
        if facts.setdefault(name, value) != value:
            raise InputError(
                f"{self.place} holds the answers of another run: {name} is {value[:16]} now, "
                f"{str(facts[name])[:16]} then."
            )

    def finish(self) -> None:
        """Mark the journal as complete, and close it."""
        if not self.finished:
            self.append(AnswerRecord(name=_END))
        self.finished = True
        self.close()

    def remove(self) -> None:
        """Remove the file and its key, once the report is written."""
        self.close()
        for path in (self.path, self.place / KEY):
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Sync the file to the disk and close it."""
        if self._file is not None:
            with raise_unwritable(self.path):
                os.fsync(self._file.fileno())
            self._file.close()
            self._file = None

    def append(self, record: AnswerRecord) -> None:
        """Add a record; raises Interrupted when the disk is full, and keeps all earlier records."""
        if self._file is None:
            self._begin()
        elif self._torn:
            self._cut(self._file)
        since = time.monotonic() - self._since
        timed = replace(record, session=self._session, seconds=since)
        self._write(encryption.frame(encryption.encrypt(timed.packed(), self._key), self._key))
        self.answers += record.answers

    def record(self, name: bytes, number: int, turn: int, room: int) -> AnswerRecord | None:
        """Return piece `turn` of a pass, of at most `room` bytes; None if there is none."""
        pieces = self._pieces.get((name, number), ())
        if turn >= len(pieces):
            return None
        start, length = pieces[turn]
        if length > encryption.largest_sealed(room):
            raise self.broken(f"a record is larger than the {room:,} bytes that it may need")
        with self.path.open("rb") as file:
            file.seek(start)
            content = file.read(length)
        try:
            return encryption.read(encryption.decrypt(content, self._key), room)
        except ValueError as error:
            raise self.broken(str(error)) from None

    def broken(self, why: object) -> BrokenJournal:
        """Return the error for a journal that no fedaudit wrote, with the reason `why`."""
        shard = self.header.get("shard")
        return BrokenJournal(
            f"{self.path}{f' of shard {shard}' if shard else ''} holds what no audit writes: {why}."
        )

    def read(self, file: BinaryIO, start: int, key: bytes, *, write: bool) -> None:
        """Index every complete record after `start`; to `write`, the file stays open for more."""
        self._key, self._end = key, start
        file.seek(start)
        session_seconds: dict[int, float] = {}
        for frame in encryption.frames(file, self._key):
            try:
                record = encryption.read(encryption.decrypt(frame.begin, self._key), 0)
            except ValueError as error:
                raise self.broken(error) from None
            self.finished = record.name == _END
            if not self.finished:
                self._pieces[record.name, record.number].append((frame.start, frame.length))
                self.loaded_answers += record.answers
            session_seconds[record.session] = record.seconds
            self._end = frame.start + frame.length
        self.earlier_seconds, self.answers = sum(session_seconds.values()), self.loaded_answers
        if write and not self.finished:
            self._file, self._torn = file, True
        else:
            file.close()

    def _begin(self) -> None:
        """Create the file, readable by its owner only, with its key and header."""
        make_folder(self.place)
        self._key = secrets.token_bytes(header.KEY)
        atomic_text(self.place / KEY, self._key.hex() + "\n", mode=0o600)
        header_json = json.dumps(
            {**self.header, "key": header.digest_of(self._key)}, sort_keys=True
        ).encode()
        with raise_unwritable(self.path):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
            self._file = os.fdopen(os.open(self.path, flags, 0o600), "r+b", buffering=0)
        try:
            header.locked(self._file, self.place)
            self._write(FIRST + encryption.frame(header_json))
        except BaseException:
            self._file.close()
            self._file = None
            self.path.unlink()
            raise

    def _write(self, record: bytes) -> None:
        assert self._file is not None
        try:
            with raise_unwritable(self.path):
                if os.write(self._file.fileno(), record) < len(record):
                    raise OSError(28, "No space left on device")
                self._end += len(record)
                if (now := time.monotonic()) > self._synced + SYNC:
                    os.fsync(self._file.fileno())
                    self._synced = now
        except BaseException:
            # Half a record at the end would be found at the next opening, but none is better.
            self._cut(self._file)
            raise

    def _cut(self, file: BinaryIO) -> None:
        """Truncate the file after its last complete record."""
        file.truncate(self._end)
        file.seek(self._end)
        self._torn = False


class JournalPass:
    """The answers of one pass, piece by piece: first those in the journal, then new ones."""

    def __init__(self, journal: Journal, name: bytes, number: int) -> None:
        self.journal, self.name, self._number, self._turn = journal, name, number, 0

    def next(self, piece: bytes, room: int) -> Any | None:
        """Return the answers to the next piece; None if it has to be asked.

        `piece` is a digest of its questions, and `room` the most bytes that the answers take as
        JSON. Raises OtherQuestions if another piece comes next, or if a finished journal has none,
        and BrokenJournal for a record that is too large or invalid.
        """
        record = self.journal.record(self.name, self._number, self._turn, room)
        if record is None and not self.journal.finished:
            return None
        self._turn += 1
        if record is None or record.piece != piece:
            raise OtherQuestions(
                f"{self.journal.path} holds answers to other questions than this audit asks: "
                "remove it and begin again."
            )
        if record.content is None:
            raise self.journal.broken("a record is empty")
        return record.content

    def broken(self, why: object) -> BrokenJournal:
        """Return the error for invalid answers, with the reason `why`."""
        return self.journal.broken(why)

    def add(self, piece: bytes, answers: int, content: Any) -> None:
        """Write the answers to the next piece, any JSON value, and their number."""
        self._turn += 1
        if not self.journal.finished:
            record = AnswerRecord(
                name=self.name,
                number=self._number,
                piece=piece,
                answers=answers,
                content=content,
            )
            self.journal.append(record)


def load(folder: Path, *, write: bool) -> Journal | None:
    """Return the journal in a folder, None if there is none yet; to `write`, it is locked.

    Raises InputError for a file that is no journal, one without its key, and one that another
    process is writing.
    """
    path = folder / FILE
    try:
        file = open_regular(path, write=write)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    try:
        return _read(file, folder, write)
    except BaseException:
        file.close()
        raise


def _read(file: BinaryIO, folder: Path, write: bool) -> Journal | None:
    if write:
        header.locked(file, folder)
    start = file.read(len(FIRST))
    frames = encryption.frames(file, head_size=header.LARGEST)
    first = next(frames, None) if start == FIRST else None
    if first is None:
        file.close()
        if start in EARLIER:
            raise InputError(
                f"{folder / FILE} is of an earlier version of fedaudit, which cannot be gone on "
                "with: finish it with that version, or remove it and begin again."
            )
        if not FIRST.startswith(start.rstrip(b"\0")):
            raise InputError(f"{folder / FILE} is no journal of this version of fedaudit.")
        if write:  # stopped before there was an answer to keep
            (folder / FILE).unlink()
        return None
    header_fields = header.read(first, folder / FILE)
    key = header.journal_key(folder / KEY, header_fields.pop("key", None))
    journal = Journal(folder, header_fields)
    journal.read(file, first.start + first.length, key, write=write)
    return journal
