"""Answers that a server gave to a piece of questions which it did not get to the end of.

The journal keeps whole pieces. What was answered of the piece that a server died in is kept beside
them, so that nothing which was paid for is asked again.
"""

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Protocol

from fedaudit.api.errors import InputError
from fedaudit.engine.remote.wire import CompletionRequest, CompletionResponse


class KeptAnswers(Protocol):
    """What keeps answers by name from one run of an audit to the next."""

    def recall(self, name: str) -> Any | None:
        """Return the answer that was kept; None where there is none."""

    def keep(self, answers: Mapping[str, Any]) -> None:
        """Keep answers, anything that JSON has."""


class AnswerStore:
    """Answers by what was asked."""

    def __init__(self, kept: KeptAnswers | None = None) -> None:
        self.kept = kept

    def recall(self, query: CompletionRequest) -> CompletionResponse | None:
        """Return the answer that was kept to a query, None without; InputError for no answer."""
        found = self.kept.recall(_digest(query)) if self.kept else None
        if found is None:
            return None
        if not _is_answer(found, query):
            raise InputError("The journal holds an answer of the server that is none: remove it.")
        texts, prompt, first = found
        return CompletionResponse(texts=tuple(texts), prompt=tuple(prompt), first=tuple(first))

    def keep(self, some: list[tuple[CompletionRequest, CompletionResponse]]) -> None:
        """Keep what was answered of a piece that came to no end."""
        if self.kept:
            self.kept.keep({_digest(query): _row(answer) for query, answer in some})


def _row(answer: CompletionResponse) -> list[Any]:
    return [list(answer.texts), list(answer.prompt), list(answer.first)]


def _digest(query: CompletionRequest) -> str:
    body = json.dumps(query.body("completions"), sort_keys=True)
    return blake2b(body.encode(), digest_size=16).hexdigest()


def _is_answer(row: Any, query: CompletionRequest) -> bool:
    """Tell whether what a journal holds is texts and numbers, as many as were asked for."""
    if not isinstance(row, list) or [type(part) for part in row] != [list, list, list]:
        return False
    texts, prompt, first = row
    return (
        len(texts) == query.n
        and len(prompt) == len(first)
        and {type(one) for one in texts} <= {str}
        and {type(one) for one in prompt} <= {float}
        and {type(one) for one in first} <= {bool}
    )
