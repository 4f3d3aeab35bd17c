"""Whether a served adapter still answers at the end of an audit, and not its base in its place."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from fedaudit.api.errors import NoEffectError, TargetError
from fedaudit.engine.remote.server import CompletionServer
from fedaudit.engine.remote.wire import CompletionRequest, CompletionResponse

KEPT = 64
"""The first answers of each model that are kept."""
REPEATED = 4
"""The requests that are sent once more."""

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
