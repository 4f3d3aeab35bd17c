"""Responses that a server gave before it failed in the middle of a chunk of requests.

The cache of answers keeps whole batches. The responses of the batch in which a server failed are
kept besides, so that no request is paid for twice.
"""

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Protocol

from fedaudit.api.errors import InputError
from fedaudit.engine.remote.wire import CompletionRequest, CompletionResponse


class CacheBackend(Protocol):
    """Stores responses by name from one run of an audit to the next."""

    def recall(self, name: str) -> Any | None:
        """Return the stored response, or None."""

    def keep(self, answers: Mapping[str, Any]) -> None:
        """Store responses, which may be any JSON values."""


class CompletionCache:
    """Responses by request."""

    def __init__(self, backend: CacheBackend | None = None) -> None:
        self.backend = backend

    def recall(self, query: CompletionRequest) -> CompletionResponse | None:
        """Return the stored response to a request, or None; raises InputError if malformed."""
        row = self.backend.recall(_digest(query)) if self.backend else None
        if row is None:
            return None
        if not _is_answer(row, query):
            raise InputError(
                "A cached response of the server does not match its request: remove the cache."
            )
        texts, prompt, first = row
        return CompletionResponse(texts=tuple(texts), prompt=tuple(prompt), first=tuple(first))

    def keep(self, answers: list[tuple[CompletionRequest, CompletionResponse]]) -> None:
        """Store the responses of an unfinished chunk."""
        if self.backend:
            self.backend.keep({_digest(query): _row(answer) for query, answer in answers})


def _row(answer: CompletionResponse) -> list[Any]:
    return [list(answer.texts), list(answer.prompt), list(answer.first)]


def _digest(query: CompletionRequest) -> str:
    body = json.dumps(query.body("completions"), sort_keys=True)
    return blake2b(body.encode(), digest_size=16).hexdigest()


def _is_answer(row: Any, query: CompletionRequest) -> bool:
    """Tell whether a cached row is a response with as many texts as were requested."""
    if not isinstance(row, list) or [type(field) for field in row] != [list, list, list]:
        return False
    texts, prompt, first = row
    return (
        len(texts) == query.n
        and len(first) in (0, len(prompt))
        and {type(text) for text in texts} <= {str}
        and {type(value) for value in prompt} <= {float}
        and {type(flag) for flag in first} <= {bool}
    )
