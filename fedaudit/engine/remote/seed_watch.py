"""Whether a server that kept to seeds still does: the same is asked from time to time."""

from fedaudit.api.errors import TargetError
from fedaudit.engine.remote.probe import NEW, PROMPTS, SEEDS, WARM
from fedaudit.engine.remote.server import CompletionServer
from fedaudit.engine.remote.wire import CompletionRequest

EVERY = 200
"""Requests between two looks."""


class SeedCheck:
    """Asks a seeded question again and compares; at a difference, the audit goes on and says so."""

    def __init__(self, server: CompletionServer) -> None:
        self.server = server
        self.looks = self.otherwise = 0
        self._first = ""
        """How many requests had been sent when a difference was first seen, as text."""
        self._next = 0
        self._said: list[str] | None = None

    def look(self, *, last: bool = False) -> None:
        """Look, if it is time to; the first look is what later ones are compared with."""
        sent = self.server.spending.requests
        if sent < self._next and not last:
            return
        self._next = sent + EVERY
        try:
            answers = self.server.try_all([self._query(prompt) for prompt in PROMPTS])
        except TargetError:
            return  # the next request will raise it
        texts = [answer.texts[0] for answer in answers if answer is not None]
        if self._said is None:
            self._said = texts
            return
        self.looks += 1
        if texts != self._said:
            self.otherwise += 1
            self._first = self._first or f"{sent:,}"

    def caveats(self) -> list[str]:
        """Return what was noticed, in words."""
        if not self.otherwise:
            return []
        return [
            f"The server stopped keeping to seeds: at {self.otherwise:,} of {self.looks:,} looks "
            f"it answered a seeded question otherwise than at first, first seen after "
            f"{self._first} requests. The same audit may give other answers."
        ]

    def _query(self, prompt: str) -> CompletionRequest:
        return CompletionRequest(
            model=self.server.model,
            prompt=prompt,
            max_tokens=NEW,
            seed=SEEDS[0],
            temperature=WARM,
            size=len(prompt) // 3,
        )
