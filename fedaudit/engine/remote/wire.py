"""Requests and answers of the OpenAI-compatible protocol, and the checks of an answer."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fedaudit.system.numbers import is_finite_number

Api = Literal["completions", "chat"]
Scoring = Literal["", "echo", "prompt_logprobs"]

PATHS: Mapping[Api, str] = {"completions": "/completions", "chat": "/chat/completions"}
ROUNDING = 1e-3
"""How far a log-probability may be above 0."""
LONGEST_TOKEN = 256
"""Characters that a token has at most: a longer answer is cut."""


class MalformedResponse(ValueError):
    """A server's answer that does not fit its request; the text says what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """One request: a prompt as text or tokens, and how it is continued, or scored."""

    model: str
    prompt: str | tuple[int, ...]
    max_tokens: int
    n: int = 1
    seed: int | None = None
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    logprobs: bool = False
    scoring: Scoring = ""
    size: int = 0
    """Tokens of the prompt, as far as one can tell."""

    def body(self, api: Api) -> dict[str, Any]:
        """Return the table that is sent, without any field that it does not need."""
        prompt = self.prompt if isinstance(self.prompt, str) else list(self.prompt)
        messages = {"messages": [{"role": "user", "content": prompt}]}
        table: dict[str, Any] = {
            "model": self.model,
            **({"prompt": prompt} if api == "completions" else messages),
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
        }
        options: dict[str, Any] = {
            "n": self.n if self.n > 1 else None,
            "seed": self.seed,
            "top_k": self.top_k or None,
            "top_p": self.top_p if self.top_p < 1 else None,
            "logprobs": 1 if self.logprobs or self.scoring == "echo" else None,
            "echo": True if self.scoring == "echo" else None,
            "prompt_logprobs": 1 if self.scoring == "prompt_logprobs" else None,
        }
        return table | {name: value for name, value in options.items() if value is not None}

    @property
    def tokens(self) -> int:
        """The most tokens that are read and written for it, as far as one can tell."""
        return self.size + self.n * self.max_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionResponse:
    """What a server says to one request."""

    texts: tuple[str, ...]
    log_probabilities: tuple[float, ...] = ()
    """Of the tokens of the first text, where they were asked for."""
    prompt: tuple[float, ...] = ()
    """Log-probabilities of all tokens but the first: the prompt's, then those that were written."""
    first: tuple[bool, ...] = ()
    """Whether no other token is likelier there."""
    prompt_tokens: int | None = None
    """How many tokens the server says that the prompt has."""


def read_answer(body: bytes, query: CompletionRequest, api: Api) -> CompletionResponse:
    """Return a server's answer; raises MalformedResponse for one that cannot be believed."""
    try:
        table = json.loads(body)
        choices = _choices(table, query.n)
        texts = tuple(_text(choice, api, query.max_tokens) for choice in choices)
        logprobs: tuple[float, ...] = ()
        scored: tuple[tuple[float, ...], tuple[bool, ...]] = (), ()
        if query.logprobs:
            logprobs = _read_logprobs(choices[0], api)
        if query.scoring:
            scored = _prompt(choices[0], table, query)
        usage = table.get("usage") or {}
        count = usage.get("prompt_tokens")
    except MalformedResponse:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise MalformedResponse("is no answer of an OpenAI-compatible server") from None
    return CompletionResponse(
        texts=texts,
        log_probabilities=logprobs,
        prompt=scored[0],
        first=scored[1],
        prompt_tokens=count if type(count) is int else None,
    )


def read_models(body: bytes) -> list[Mapping[str, Any]]:
    """Return the models that a server lists; raises MalformedResponse for no list."""
    try:
        rows = json.loads(body)["data"]
        models: list[Mapping[str, Any]] = [
            row for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)
        ]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise MalformedResponse("lists no models") from None
    return models


def _choices(table: Mapping[str, Any], n: int) -> list[Mapping[str, Any]]:
    """Return the choices in their order; there must be as many as were asked for."""
    choices = table["choices"]
    if not isinstance(choices, list) or len(choices) != n:
        count = len(choices) if isinstance(choices, list) else 0
        raise MalformedResponse(f"has {count} choices, not {n}")
    order = [choice.get("index", i) for i, choice in enumerate(choices)]
    if sorted(order) != list(range(n)):
        raise MalformedResponse("has choices whose numbers are not theirs")
    return [choices[order.index(i)] for i in range(n)]


def _text(choice: Mapping[str, Any], api: Api, max_tokens: int) -> str:
    text = choice["text"] if api == "completions" else choice["message"]["content"]
    if text is None and api == "chat":  # the model declined
        return ""
    if not isinstance(text, str):
        raise MalformedResponse("has a choice without text")
    # Half of a surrogate pair is no text.
    return text[: max_tokens * LONGEST_TOKEN].encode("utf-8", "replace").decode()


def _read_logprobs(choice: Mapping[str, Any], api: Api) -> tuple[float, ...]:
    if api == "chat":
        return tuple(_number(entry["logprob"]) for entry in choice["logprobs"]["content"])
    return tuple(_number(value) for value in choice["logprobs"]["token_logprobs"])


def _prompt(
    choice: Mapping[str, Any], table: Mapping[str, Any], query: CompletionRequest
) -> tuple[tuple[float, ...], tuple[bool, ...]]:
    """Return the log-probability of each token but the first, and whether it is the likeliest.

    What was written behind the prompt comes last.
    """
    if query.scoring == "echo":
        rows = choice["logprobs"]["token_logprobs"]
        likeliest = choice["logprobs"].get("top_logprobs") or [None] * len(rows)
        pairs = list(zip(rows, likeliest, strict=True))[1:]
        values = [_number(value) for value, _ in pairs]
        tops = [max(top.values()) if isinstance(top, dict) and top else None for _, top in pairs]
        return tuple(values), tuple(
            top is None or value >= top - ROUNDING for value, top in zip(values, tops, strict=True)
        )
    positions = choice.get("prompt_logprobs") or table["prompt_logprobs"]
    ids = query.prompt if isinstance(query.prompt, tuple) else ()
    found_at = [
        _at_position(position, ids[i] if i < len(ids) else None)
        for i, position in enumerate(positions)
        if i
    ]
    return tuple(value for value, _ in found_at), tuple(first for _, first in found_at)


def _at_position(position: Mapping[str, Any], token: int | None) -> tuple[float, bool]:
    """Return (ln p, is the likeliest) of the token at a position, which vLLM's table has first."""
    key = next(iter(position)) if token is None else str(token)
    entry = position[key]
    return _number(entry["logprob"]), entry.get("rank", 1) == 1


def _number(value: Any) -> float:
    if not is_finite_number(value) or value > ROUNDING:
        raise MalformedResponse("has a log-probability that is none")
    return float(min(value, 0.0))


def same_texts(first: Sequence[CompletionResponse], second: Sequence[CompletionResponse]) -> int:
    """Return how many answers say the same."""
    return sum(a.texts == b.texts for a, b in zip(first, second, strict=True))
