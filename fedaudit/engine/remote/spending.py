"""The cost of auditing a server, in requests and tokens: estimated, counted and limited."""

import threading
from dataclasses import dataclass, field

from fedaudit.api.errors import Interrupted, UsageError
from fedaudit.engine.remote.options import EndpointOptions
from fedaudit.engine.remote.wire import CompletionRequest


@dataclass(kw_only=True)
class CostEstimate:
    """An upper bound on the cost of attacks, reached if they find everything they look for."""

    requests: int = 0
    """Requests to a server that returns several samples per request."""
    single: int = 0
    """Requests to a server that returns one sample per request."""
    tokens: int = 0
    """Tokens for `requests` requests."""
    single_tokens: int = 0
    """Tokens for `single` requests."""
    new: int = 0
    """The most new tokens that a request asks for."""
    longest: int = 0
    """Tokens of the longest prompt and its completion together."""

    def add(self, prompt: int, new: int, samples: int, requests: int) -> None:
        """Count `samples` completions of `new` tokens each, for a prompt of `prompt` tokens."""
        self.requests += requests
        self.single += samples
        self.tokens += requests * prompt + samples * new
        self.single_tokens += samples * (prompt + new)
        self.new = max(self.new, new)
        self.longest = max(self.longest, prompt + new)

    def needed(self, *, multi_sample: bool) -> tuple[int, int]:
        """Return the requests and tokens, with several samples per request or one."""
        if multi_sample:
            return self.requests, self.tokens
        return self.single, self.single_tokens

    def describe(self) -> str:
        """Return the estimate in words."""
        remark = f" ({self.single:,} where it gives one sample a request)"
        return (
            f"The server will be asked up to {self.requests:,} times"
            f"{remark if self.single > self.requests else ''}, for up to {self.tokens:,} tokens, "
            "and up to some forty times before to see what it can."
        )

    def check(self, options: EndpointOptions, *, multi_sample: bool) -> None:
        """Raise UsageError if the estimate exceeds the budget."""
        for name, most, count in zip(
            ("max_requests", "max_tokens"),
            (options.max_requests, options.max_tokens),
            self.needed(multi_sample=multi_sample),
            strict=True,
        ):
            if count > most:
                raise UsageError(
                    f"{self.describe()} That is more than endpoint.{name} allows ({most:,}): "
                    f"nothing of the audit was asked. Ask for less, or set endpoint.{name}={count}"
                    " or more."
                )


@dataclass(kw_only=True)
class RequestBudget:
    """The requests and tokens spent by all threads together, with their limits."""

    options: EndpointOptions
    requests: int = 0
    tokens: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, query: CompletionRequest) -> None:
        """Count a request before it is sent; raises Interrupted if the budget is spent."""
        with self._lock:
            for name, count in (
                ("max_requests", self.requests + 1),
                ("max_tokens", self.tokens + query.tokens),
            ):
                if count > getattr(self.options, name):
                    raise Interrupted(
                        f"The budget is spent: endpoint.{name}={getattr(self.options, name)}."
                    )
            self.requests += 1
            self.tokens += query.tokens
