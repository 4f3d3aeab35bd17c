"""Requests and responses of the OpenAI-compatible protocol, and the validation of responses."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fedaudit.system.numbers import is_finite_number

Api = Literal["completions", "chat"]
Scoring = Literal["", "echo", "prompt_logprobs"]
LengthField = Literal["max_tokens", "max_completion_tokens"]

PATHS: Mapping[Api, str] = {"completions": "/completions", "chat": "/chat/completions"}
ROUNDING = 1e-3
"""How far a log-probability may be above 0, and below the likeliest one of its position."""
LONGEST_TOKEN = 256
"""The maximum number of characters per token; longer texts are truncated."""


class MalformedResponse(ValueError):
    """A server's response does not fit its request; the message says what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """One request: a prompt as text or token ids, and how it is completed or scored."""

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
    repetition_penalty: float | None = None
    """1 for none; None leaves it to the server."""
    size: int = 0
    """The number of tokens of the prompt, estimated if it is not known."""

    def body(self, api: Api, length: LengthField = "max_tokens") -> dict[str, Any]:
        """Return the JSON object to send, without optional fields that are not needed.

        `length` is the server's name of the most tokens to generate.
        """
        prompt = self.prompt if isinstance(self.prompt, str) else list(self.prompt)
        messages = {"messages": [{"role": "user", "content": prompt}]}
        table: dict[str, Any] = {
            "model": self.model,
            **({"prompt": prompt} if api == "completions" else messages),
            length: self.max_tokens,
            "temperature": self.temperature,
        }
        options: dict[str, Any] = {
            "n": self.n if self.n > 1 else None,
            "seed": self.seed,
            "top_k": self.top_k or None,
            "top_p": self.top_p if self.top_p < 1 else None,
            "logprobs": 1 if self.logprobs or self.scoring == "echo" else None,
            "echo": True if self.scoring == "echo" else None,
            "repetition_penalty": self.repetition_penalty,
            "prompt_logprobs": 1 if self.scoring == "prompt_logprobs" else None,
        }
        return table | {name: value for name, value in options.items() if value is not None}

    @property
    def tokens(self) -> int:
        """The maximum number of prompt and completion tokens, as far as `size` is known."""
        return self.size + self.n * self.max_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionResponse:
    """A server's response to one request."""

    texts: tuple[str, ...]
    log_probabilities: tuple[float, ...] = ()
    """ln p of the tokens of the first text, if requested."""
    prompt: tuple[float, ...] = ()
    """ln p of all tokens but the first, if requested: the prompt's, then any generated ones."""
    first: tuple[bool, ...] = ()
    """For each entry of `prompt`, whether no other token is likelier at its position."""
    thoughts: int = 0
    """The number of texts that are empty beside a text of the model's reasoning."""
    prompt_tokens: int | None = None
    """The number of tokens of the prompt, according to the server."""


def read_answer(body: bytes, query: CompletionRequest, api: Api) -> CompletionResponse:
    """Return a server's response; raises MalformedResponse if it does not fit the request."""
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
        raise MalformedResponse("is not an answer of an OpenAI-compatible server") from None
    return CompletionResponse(
        texts=texts,
        thoughts=sum(_only_thinks(choice, api) for choice in choices),
        log_probabilities=logprobs,
        prompt=scored[0],
        first=scored[1],
        prompt_tokens=count if type(count) is int else None,
    )


def read_models(body: bytes) -> list[Mapping[str, Any]]:
    """Return the models that a server lists; raises MalformedResponse if it is not a list."""
    try:
        rows = json.loads(body)["data"]
        models: list[Mapping[str, Any]] = [
            row for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)
        ]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise MalformedResponse("lists no models") from None
    return models


def _choices(table: Mapping[str, Any], n: int) -> list[Mapping[str, Any]]:
    """Return the choices in order; raises MalformedResponse unless there are `n` of them."""
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
    # Replace lone surrogates, which are not valid text.
    return text[: max_tokens * LONGEST_TOKEN].encode("utf-8", "replace").decode()


def _only_thinks(choice: Mapping[str, Any], api: Api) -> bool:
    """Tell whether a reply has no content, and all that the model wrote is its reasoning."""
    if api != "chat" or choice["message"].get("content"):
        return False
    fields = ("reasoning_content", "reasoning")
    return any(isinstance(choice["message"].get(f), str) and choice["message"][f] for f in fields)


def _read_logprobs(choice: Mapping[str, Any], api: Api) -> tuple[float, ...]:
    if api == "chat":
        return tuple(_number(entry["logprob"]) for entry in choice["logprobs"]["content"])
    return tuple(_number(value) for value in choice["logprobs"]["token_logprobs"])


def _prompt(
    choice: Mapping[str, Any], table: Mapping[str, Any], query: CompletionRequest
) -> tuple[tuple[float, ...], tuple[bool, ...]]:
    """Return the ln p of each token but the first, and whether it is the likeliest there.

    Generated tokens follow those of the prompt.
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
    """Return (ln p, is likeliest) of `token` at a position; without it, of vLLM's first entry.

    vLLM lists the prompt's own token first.
    """
    key = next(iter(position)) if token is None else str(token)
    entry = position[key]
    return _number(entry["logprob"]), entry.get("rank", 1) == 1


def _number(value: Any) -> float:
    if not is_finite_number(value) or value > ROUNDING:
        raise MalformedResponse("has a log-probability that is none")
    return float(min(value, 0.0))


def same_texts(first: Sequence[CompletionResponse], second: Sequence[CompletionResponse]) -> int:
    """Return the number of positions at which both sequences of responses have the same texts."""
    return sum(a.texts == b.texts for a, b in zip(first, second, strict=True))
