"""Answers to a piece of questions that was interrupted, kept beside the complete pieces."""

from collections.abc import Mapping
from typing import Any

from fedaudit.journal.shards import AuditJournal

NAME = "unfinished"
PIECE = b"unfinished piece"
ROOM = 2**28
"""The most bytes of JSON for the answers of a piece."""


class UnfinishedPiece:
    """Answers by names of questions; only for a journal that is written, not for merged ones."""

    def __init__(self, journal: AuditJournal | None) -> None:
        self._answers: dict[str, Any] = {}
        shard = journal.shards[0] if journal and not journal.merged else None
        self._pass = None if shard is None or shard.journal.finished else shard.open_pass(NAME)
        while self._pass and (content := self._pass.next(PIECE, ROOM)) is not None:
            if not isinstance(content, dict):
                raise self._pass.broken("answers have no names")
            self._answers |= content

    def recall(self, name: str) -> Any | None:
        """Return the answer kept under a name; None if there is none."""
        return self._answers.get(name)

    def keep(self, answers: Mapping[str, Any]) -> None:
        """Keep answers, any JSON values."""
        self._answers |= answers
        if self._pass and answers:
            self._pass.add(PIECE, len(answers), dict(answers))
