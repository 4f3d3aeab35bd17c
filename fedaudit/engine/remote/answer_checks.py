"""Checks of answers during an audit: whether they are whole, and still those of the model."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from fedaudit.api.errors import NoEffectError, TargetError
from fedaudit.engine.remote.probe import NEW_TOKENS, PROMPTS, SAMPLING_TEMPERATURE, SEEDS
from fedaudit.engine.remote.server import CompletionServer
from fedaudit.engine.remote.tokenizer import RemoteTokenizer
from fedaudit.engine.remote.wire import CompletionRequest, CompletionResponse

CUT_BELOW = 0.9
"""An answer with this share of the tokens asked for may be said to have its full length."""
KEPT = 64
"""The first answers of each model that are kept."""
REPEATED = 4
"""The requests that are sent once more."""
EVERY = 200
"""The number of requests between two checks of seeds."""

_Question = tuple[str | tuple[int, ...], int, str]


@dataclass
class EffectCheck:
    """Repeats requests to which the tuned model's answers differed from the base's."""

    tuned: CompletionServer
    base: CompletionServer
    _asked: dict[_Question, CompletionRequest] = field(default_factory=dict)
    _tuned: dict[_Question, CompletionResponse] = field(default_factory=dict)
    _base: dict[_Question, CompletionResponse] = field(default_factory=dict)

    def keep(
        self,
        server: CompletionServer,
        queries: Sequence[CompletionRequest],
        answers: Sequence[CompletionResponse],
    ) -> None:
        """Keep the first answers of both models that are not drawn: scores and greedy texts."""
        kept = self._tuned if server is self.tuned else self._base
        for query, answer in zip(queries, answers, strict=True):
            if len(kept) >= KEPT:
                return
            if query.temperature == 0:
                question = (query.prompt, query.max_tokens, query.scoring)
                kept.setdefault(question, answer)
                if server is self.tuned:
                    self._asked.setdefault(question, query)

    def check(self) -> None:
        """Raise NoEffectError if the tuned model now answers as its base did at first."""
        effects = {
            q: _distance(self._tuned[q], self._base[q]) for q in self._tuned if q in self._base
        }
        changed = sorted((q for q in effects if effects[q]), key=lambda q: -effects[q])[:REPEATED]
        try:
            answers = self.tuned.try_all([self._asked[question] for question in changed])
        except TargetError:
            return  # all questions have been answered
        gone = sum(
            answer is not None
            and _distance(answer, self._base[question]) < _distance(answer, self._tuned[question])
            for question, answer in zip(changed, answers, strict=True)
        )
        if 2 * gone > len(changed):
            raise NoEffectError(
                f"The adapter {self.tuned.model} stopped having an effect while the audit ran: at "
                f"its end, {gone} of {len(changed)} answers are the base's, which they were not at "
                "first. Was it unloaded? Audit it again without --resume, since the stored answers "
                "may be the base's."
            )


def _distance(first: CompletionResponse, second: CompletionResponse) -> float:
    """Return the largest difference of a token's score, or else whether texts differ."""
    if first.prompt and len(first.prompt) == len(second.prompt):
        return max(abs(a - b) for a, b in zip(first.prompt, second.prompt, strict=True))
    return float(first.texts != second.texts)


@dataclass
class Endings:
    """Counts of the answers to an audit's questions that may not be whole."""

    tokenizer: RemoteTokenizer
    whole_texts: bool
    """Whether all that is generated is in the text, as in continuations and not in replies."""
    texts: int = 0
    filtered: int = 0
    """Texts that ended at a content filter, according to the server."""
    stopped: int = 0
    """Texts that ended at a stop string, or lack a part of what was generated."""
    cut: int = 0
    """Texts that ended at a limit, with fewer tokens than were asked for."""

    def add(
        self, queries: Sequence[CompletionRequest], answers: Sequence[CompletionResponse]
    ) -> None:
        """Count the answers to some requests."""
        for query, answer in zip(queries, answers, strict=True):
            size = len(answer.texts)
            self.texts += size
            filtered = answer.ends.count("content_filter")
            self.filtered += filtered
            if filtered:
                continue
            least = CUT_BELOW * query.max_tokens * size
            if set(answer.ends) == {"length"} and (answer.new_tokens or least) < least:
                self.cut += size
            elif answer.stopped:
                self.stopped += answer.stopped
            elif self.whole_texts and self.tokenizer.count_missing(answer):
                self.stopped += size

    def caveats(self) -> list[str]:
        """Return what a reader should know of answers that are not whole."""
        reasons = (
            (self.filtered, "were cut by a content filter of the server"),
            (self.cut, "were cut by a limit of the server before the length that was asked for"),
            (
                self.stopped,
                "ended at a stop string of the server, or lack a part of what was generated",
            ),
        )
        return [
            f"{count:,} of {self.texts:,} answers {what}: the model may say what they do not."
            for count, what in reasons
            if count
        ]


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
        query = CompletionRequest(
            model=self.server.model,
            prompt=PROMPTS[0],
            max_tokens=NEW_TOKENS,
            seed=SEEDS[0],
            temperature=SAMPLING_TEMPERATURE,
            size=len(PROMPTS[0]) // 3,
        )
        try:
            answer = self.server.try_to(query)
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
