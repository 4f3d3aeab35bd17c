"""Win, tie or lose: an answer against a reference, judged in both orders (FewFedPIT, 4.1)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from fedaudit.api.progress import Progress, no_progress
from fedaudit.judge.cache import Judgement, JudgementCache
from fedaudit.judge.prompt import JudgeQuestion

Outcome = Literal["win", "tie", "lose", "malformed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """An answer to a prompt, and the reference answer that it is compared with."""

    prompt: str
    answer: str
    reference: str

    def questions(self) -> tuple[JudgeQuestion, JudgeQuestion]:
        """Return the answer before the reference, and the reference before the answer."""
        return (
            JudgeQuestion(self.prompt, self.answer, self.reference),
            JudgeQuestion(self.prompt, self.reference, self.answer),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeVerdict:
    """How the answer stands against the reference, and both mean scores, from 1 to 10."""

    outcome: Outcome
    answer: float | None = None
    reference: float | None = None


MALFORMED = JudgeVerdict(outcome="malformed")


class Judge(Protocol):
    """What scores two answers: an endpoint, or a model on this machine."""

    @property
    def model(self) -> str:
        """The judge's name, in reports and in the cache's keys."""

    def judge(
        self, questions: Mapping[str, JudgeQuestion], cache: JudgementCache
    ) -> Iterable[tuple[str, Judgement | None]]:
        """Yield each question's judgement by its key, once it is in the cache; None for none."""


def judge_all(
    judge: Judge,
    comparisons: Sequence[Comparison],
    *,
    cache: JudgementCache | None = None,
    progress: Progress = no_progress,
) -> list[JudgeVerdict]:
    """Return the verdict of every comparison, in order.

    Equal questions are asked once, and none that the cache answers. A question without a judgement
    is not cached, so another run may ask it again. Raises what the judge raises; judgements until
    then are in the cache.
    """
    cache = JudgementCache() if cache is None else cache
    questions = {
        question.key(judge.model): question
        for comparison in comparisons
        for question in comparison.questions()
    }
    judgements: dict[str, Judgement | None] = {
        key: cached for key in questions if (cached := cache.get(key))
    }
    progress(len(judgements), len(questions))
    missing = {key: question for key, question in questions.items() if key not in judgements}
    for key, judgement in judge.judge(missing, cache):
        judgements[key] = judgement
        progress(len(judgements), len(questions))
    return [
        verdict(*(judgements[question.key(judge.model)] for question in c.questions()))
        for c in comparisons
    ]


def verdict(first: Judgement | None, second: Judgement | None) -> JudgeVerdict:
    """Return the verdict of two judgements: the answer stood first, then second.

    It wins with the higher mean over both orders and all aspects; equal means are a tie.
    """
    if first is None or second is None:
        return MALFORMED
    answer, reference = (*first[0], *second[1]), (*first[1], *second[0])
    means = [math.fsum(scores) / len(scores) for scores in (answer, reference)]
    lead = math.fsum((*answer, *(-score for score in reference)))
    # Scores such as 7.1 are not binary fractions: a rounding error is not a lead.
    outcome: Outcome = "tie" if abs(lead) < 1e-9 else "win" if lead > 0 else "lose"
    return JudgeVerdict(outcome=outcome, answer=means[0], reference=means[1])
