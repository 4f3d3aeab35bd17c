"""Answers to a piece of questions that was not asked to its end: kept beside the whole pieces."""

from collections.abc import Mapping
from typing import Any

from fedaudit.journal.shards import AuditJournal

NAME = "unfinished"
PIECE = b"unfinished piece"
ROOM = 2**28
"""Bytes of JSON that the answers of a piece may take."""


class UnfinishedPiece:
    """Answers by the names of their questions; of a journal that is written, not of merged ones."""

    def __init__(self, kept: AuditJournal | None) -> None:
        self._answers: dict[str, Any] = {}
        own = kept.parts[0] if kept and not kept.merged else None
        self._pass = None if own is None or own.journal.finished else own.stream(NAME)
        while self._pass and (content := self._pass.next(PIECE, ROOM)) is not None:
            if not isinstance(content, dict):
                raise self._pass.broken("answers have no names")
            self._answers |= content

    def recall(self, name: str) -> Any | None:
        """Return the answer that was kept; None where there is none."""
        return self._answers.get(name)

    def keep(self, answers: Mapping[str, Any]) -> None:
        """Keep answers, anything that JSON has."""
        self._answers |= answers
        if self._pass and answers:
            self._pass.add(PIECE, len(answers), dict(answers))
