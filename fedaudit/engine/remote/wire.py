"""Requests and responses of the OpenAI-compatible protocol, and the validation of responses."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from fedaudit.system.numbers import is_finite_number

Api = Literal["completions", "chat"]
Scoring = Literal["", "echo", "prompt_logprobs"]
LengthField = Literal["max_tokens", "max_completion_tokens"]

PATHS: Mapping[Api, str] = {"completions": "/completions", "chat": "/chat/completions"}
NEUTRAL_PENALTIES = (
    ("repetition_penalty", 1.0),
    ("repeat_penalty", 1.0),  # llama.cpp, Ollama
    ("frequency_penalty", 0.0),
    ("presence_penalty", 0.0),
)
"""Fields by which a server may penalise repetition, with the values for no penalty."""
NEUTRAL_DRAWS = (("top_k", 1_000_000), ("top_p", 1.0), ("min_p", 0.0), *NEUTRAL_PENALTIES)
"""Fields by which a server may narrow what it draws, with values that narrow nothing. For no top_k
servers take 0, -1 or neither; more tokens than any model has mean the same to all."""
STANDARD_DRAWS = (("top_p", 1.0), ("frequency_penalty", 0.0), ("presence_penalty", 0.0))
"""Those of them that are in OpenAI's own protocol."""
ROUNDING = 1e-3
"""How far a log-probability may be above 0, and below the likeliest one of its position."""
_UNFINISHED_THOUGHT = re.compile(
    r"\s*<(think|thinking|thought|reasoning)>(?!.*</\1>)", re.DOTALL | re.IGNORECASE
)
"""Reasoning that a model did not finish before its tokens were spent."""
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
    extra: tuple[tuple[str, float], ...] = ()
    """Further fields, which a server may refuse; what the request itself sets takes precedence."""
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
            "prompt_logprobs": 1 if self.scoring == "prompt_logprobs" else None,
        }
        given = {name: value for name, value in options.items() if value is not None}
        return {**dict(self.extra), **table, **given}

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
    """For each entry of `prompt`, whether no other token is likelier at its position; empty if the
    server does not say which token is."""
    greedy: bool | None = None
    """Whether each token of the first text was the likeliest; None if the server does not say."""
    thoughts: int = 0
    """The number of texts that are empty beside a text of the model's reasoning."""
    ends: tuple[str, ...] = ()
    """Why each text ended, according to the server; "" where it does not say."""
    stopped: int = 0
    """The number of texts that ended at a string, though no audit sends a stop string."""
    new_tokens: int | None = None
    """The number of tokens of all texts, according to the server."""
    prompt_tokens: int | None = None
    """The number of tokens of the prompt, according to the server."""


def read_answer(body: bytes, query: CompletionRequest, api: Api) -> CompletionResponse:
    """Return a server's response; raises MalformedResponse if it does not fit the request."""
    try:
        table = json.loads(body)
        choices = _choices(table, query.n)
        texts = tuple(_text(choice, api, query.max_tokens) for choice in choices)
        logprobs: tuple[float, ...] = ()
        greedy: bool | None = None
        scored: tuple[tuple[float, ...], tuple[bool, ...]] = (), ()
        if query.logprobs:
            logprobs, greedy = _read_logprobs(choices[0], api)
        if query.scoring:
            scored = _prompt(choices[0], table, query)
        usage = table.get("usage") or {}
        counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
    except MalformedResponse:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise MalformedResponse("is not an answer of an OpenAI-compatible server") from None
    return CompletionResponse(
        texts=texts,
        greedy=greedy,
        thoughts=sum(_only_thinks(choice, api) for choice in choices),
        ends=tuple(str(choice.get("finish_reason") or "") for choice in choices),
        stopped=sum(isinstance(choice.get("stop_reason"), str) for choice in choices),
        log_probabilities=logprobs,
        prompt=scored[0],
        first=scored[1],
        prompt_tokens=counts[0] if type(counts[0]) is int else None,
        new_tokens=counts[1] if type(counts[1]) is int else None,
    )


def join_answers(answers: Sequence[CompletionResponse]) -> CompletionResponse:
    """Return the response of all parts into which a request for several samples was divided."""
    counts = [answer.new_tokens for answer in answers]
    known = [count for count in counts if count is not None]
    return replace(
        answers[0],
        texts=tuple(text for answer in answers for text in answer.texts),
        ends=tuple(end for answer in answers for end in answer.ends),
        thoughts=sum(answer.thoughts for answer in answers),
        stopped=sum(answer.stopped for answer in answers),
        new_tokens=sum(known) if len(known) == len(counts) else None,
    )


def count_choices(body: bytes) -> int:
    """Return the number of choices in a response, 0 if they cannot be read."""
    try:
        return len(json.loads(body)["choices"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return 0


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
    if _UNFINISHED_THOUGHT.match(text):
        return ""
    # Replace lone surrogates, which are not valid text.
    return text[: max_tokens * LONGEST_TOKEN].encode("utf-8", "replace").decode()


def _only_thinks(choice: Mapping[str, Any], api: Api) -> bool:
    """Tell whether a reply has no content, and all that the model wrote is its reasoning.

    Some servers leave the reasoning in the content, where it may never come to an end.
    """
    text = choice["text"] if api == "completions" else choice["message"].get("content")
    if text and _UNFINISHED_THOUGHT.match(text):
        return True
    if text or api != "chat":
        return False
    fields = ("reasoning_content", "reasoning")
    return any(isinstance(choice["message"].get(f), str) and choice["message"][f] for f in fields)


def _read_logprobs(choice: Mapping[str, Any], api: Api) -> tuple[tuple[float, ...], bool | None]:
    """Return the ln p of the generated tokens, and whether each is the likeliest, if that is said.

    A list that holds nothing but the generated token says nothing about others.
    """
    if api == "chat":
        entries = choice["logprobs"]["content"]
        values = [_number(entry["logprob"]) for entry in entries]
        tops = [
            [
                top["logprob"]
                for top in entry.get("top_logprobs") or ()
                if is_finite_number(top["logprob"])
            ]
            for entry in entries
        ]
    else:
        values = [_number(value) for value in choice["logprobs"]["token_logprobs"]]
        tops = _tops(choice["logprobs"], len(values))
    first = _likeliest(values, tops)
    return tuple(values), all(first) if first else None


def _tops(logprobs: Mapping[str, Any], count: int) -> list[list[float]]:
    """Return the ln p of the likeliest tokens at each position; empty where none are given."""
    listed = logprobs.get("top_logprobs") or [None] * count
    return [
        [value for value in top.values() if is_finite_number(value)]
        if isinstance(top, dict)
        else []
        for top in listed
    ]


def _likeliest(values: Sequence[float], tops: Sequence[Sequence[float]]) -> tuple[bool, ...]:
    """Return whether each token is the likeliest at its position; empty if one is not known.

    Raises ValueError if there is not one list of the likeliest tokens for each value.
    """
    pairs = list(zip(values, tops, strict=True))
    if not all(top for _, top in pairs):
        return ()
    return tuple(value >= max(top) - ROUNDING for value, top in pairs)


def _prompt(
    choice: Mapping[str, Any], table: Mapping[str, Any], query: CompletionRequest
) -> tuple[tuple[float, ...], tuple[bool, ...]]:
    """Return the ln p of each token but the first, and whether it is the likeliest there.

    Generated tokens follow those of the prompt.
    """
    if query.scoring == "echo":
        rows = choice["logprobs"]["token_logprobs"]
        values = [_number(value) for value in rows[1:]]
        return tuple(values), _likeliest(values, _tops(choice["logprobs"], len(rows))[1:])
    positions = choice.get("prompt_logprobs") or table["prompt_logprobs"]
    ids = query.prompt if isinstance(query.prompt, tuple) else ()
    found_at = [
        _at_position(position, ids[i] if i < len(ids) else None)
        for i, position in enumerate(positions)
        if i
    ]
    ranked = [first for _, first in found_at if first is not None]
    return (
        tuple(value for value, _ in found_at),
        tuple(ranked) if len(ranked) == len(found_at) else (),
    )


def _at_position(position: Mapping[str, Any], token: int | None) -> tuple[float, bool | None]:
    """Return (ln p, is likeliest) of `token` at a position; without it, of vLLM's first entry.

    vLLM lists the prompt's own token first, and states its rank.
    """
    key = next(iter(position)) if token is None else str(token)
    value = _number(position[key]["logprob"])
    rank = position[key].get("rank")
    if rank is not None:
        return value, rank == 1
    others = [entry["logprob"] for name, entry in position.items() if name != key]
    return value, value >= max(others) - ROUNDING if others else None


def _number(value: Any) -> float:
    if not is_finite_number(value) or value > ROUNDING:
        raise MalformedResponse("has a log-probability that is none")
    return float(min(value, 0.0))


def same_texts(first: Sequence[CompletionResponse], second: Sequence[CompletionResponse]) -> int:
    """Return the number of positions at which both sequences of responses have the same texts."""
    return sum(a.texts == b.texts for a, b in zip(first, second, strict=True))
