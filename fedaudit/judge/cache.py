"""A cache of judgements by content, in a JSONL file that grows."""

import json
import os
import threading
from pathlib import Path

from fedaudit.api.errors import InputError
from fedaudit.judge.prompt import Scores, parse_scores
from fedaudit.system.files import read_regular

BEGIN = b'{"key": "'
"""How every line begins."""

Judgement = tuple[Scores, Scores]
"""The scores of the first answer and of the second, as the judge saw them."""


class JudgementCache:
    """Scores by the SHA-256 of the question; it holds no text of a record and no API key.

    Threads may share one, and processes its file: a line is written at once, behind all others. A
    line that was cut short is skipped. Without a path the cache is only in memory.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path, self._lock = path, threading.Lock()
        self._known: dict[str, Judgement] = _read(path) if path else {}

    def get(self, key: str) -> Judgement | None:
        """Return the judgement under `key`, if there is one."""
        return self._known.get(key)

    def add(self, key: str, judgement: Judgement) -> None:
        """Keep a judgement; raises InputError where the file cannot be written."""
        with self._lock:
            if self._path and key not in self._known:
                _append(self._path, {"key": key, "scores": judgement})
            self._known.setdefault(key, judgement)


def _append(path: Path, line: object) -> None:
    # A line end on both sides: a line that was cut short before does not spoil this one.
    data = f"\n{json.dumps(line)}\n".encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, data)
            os.fsync(file)
        finally:
            os.close(file)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.") from None


def _read(path: Path) -> dict[str, Judgement]:
    """Return the file's judgements, none without a file; InputError for a file of another kind."""
    try:
        lines = [line for line in read_regular(path).splitlines() if line.strip()]
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    if lines and not any(map(_is_ours, lines)):
        raise InputError(f"{path} holds no verdicts of a judge: name another file for them.")
    return dict(filter(None, map(_entry, lines)))


def _is_ours(line: bytes) -> bool:
    """Tell whether a line is a verdict, or as much of one as was written."""
    return line.startswith(BEGIN) or BEGIN.startswith(line)


def _entry(line: bytes) -> tuple[str, Judgement] | None:
    try:
        entry = json.loads(line)
        key, scores = entry["key"], entry["scores"]
        spelt = "\n".join(
            f"Answer {n}: {' '.join(map(str, values))}" for n, values in enumerate(scores, 1)
        )
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    judgement = parse_scores(spelt)
    return (key, judgement) if isinstance(key, str) and judgement else None
