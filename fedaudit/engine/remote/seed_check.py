"""Checks, by repeating a request from time to time, that a server still honours seeds."""

from fedaudit.api.errors import TargetError
from fedaudit.engine.remote.probe import NEW_TOKENS, PROMPTS, SAMPLING_TEMPERATURE, SEEDS
from fedaudit.engine.remote.server import CompletionServer
from fedaudit.engine.remote.wire import CompletionRequest

EVERY = 200
"""The number of requests between two checks."""


class SeedCheck:
    """Repeats seeded requests and compares the samples; a difference becomes a caveat."""

    def __init__(self, server: CompletionServer) -> None:
        self.server = server
        self.checks = self.mismatches = 0
        self._first = ""
        """The number of requests sent when a difference was first seen, as text."""
        self._next = server.spending.requests + EVERY

    def check(self, *, last: bool = False) -> None:
        """Repeat the probes' seeded request if a check is due, and compare the samples."""
        sent = self.server.spending.requests
        if sent < self._next and not last:
            return
        self._next = sent + EVERY
        try:
            answer = self.server.try_to(self._query(PROMPTS[0]))
        except TargetError:
            return  # the next request will raise the error
        self.checks += 1
        if answer is None or answer.texts[0] != self.server.first_draw:
            self.mismatches += 1
            self._first = self._first or f"{sent:,}"

    def caveats(self) -> list[str]:
        """Return a caveat if seeds stopped working."""
        if not self.mismatches:
            return []
        return [
            f"The server stopped keeping to seeds: at {self.mismatches:,} of {self.checks:,} looks "
            f"it answered a seeded question otherwise than at first, first seen after "
            f"{self._first} requests. The same audit may give other answers."
        ]

    def _query(self, prompt: str) -> CompletionRequest:
        return CompletionRequest(
            model=self.server.model,
            prompt=prompt,
            max_tokens=NEW_TOKENS,
            seed=SEEDS[0],
            temperature=SAMPLING_TEMPERATURE,
            size=len(prompt) // 3,
        )
