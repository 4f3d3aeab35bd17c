"""Win, tie or lose: an answer against a reference, judged in both orders (FewFedPIT, 4.1)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Literal

from fedaudit.api.progress import Progress, no_progress
from fedaudit.judge.cache import Judgement, JudgementCache
from fedaudit.judge.endpoint import EndpointClient
from fedaudit.judge.prompt import JudgeQuestion, parse_scores

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


def judge_all(
    client: EndpointClient,
    comparisons: Sequence[Comparison],
    *,
    cache: JudgementCache | None = None,
    workers: int = 4,
    progress: Progress = no_progress,
) -> list[JudgeVerdict]:
    """Return the verdict of every comparison, in order; `workers` questions are asked at a time.

    Equal questions are asked once, and none that the cache answers. An answer that cannot be read
    is asked for once more, and is then malformed: it is not cached, so another run may ask again.
    Raises what `EndpointClient.ask` raises; answers until then are in the cache.
    """
    if workers < 1:
        raise ValueError("workers must be at least 1.")
    cache = JudgementCache() if cache is None else cache
    questions = {
        question.key(client.endpoint.model): question
        for comparison in comparisons
        for question in comparison.questions()
    }
    judgements: dict[str, Judgement | None] = {
        key: cached for key in questions if (cached := cache.get(key))
    }
    progress(len(judgements), len(questions))
    missing = {key: question for key, question in questions.items() if key not in judgements}
    for key, judgement in _ask_judge(client, missing, cache, workers):
        judgements[key] = judgement
        progress(len(judgements), len(questions))
    return [
        verdict(*(judgements[question.key(client.endpoint.model)] for question in c.questions()))
        for c in comparisons
    ]


def _ask_judge(
    client: EndpointClient,
    questions: Mapping[str, JudgeQuestion],
    cache: JudgementCache,
    workers: int,
) -> Iterable[tuple[str, Judgement | None]]:
    """Yield every question's judgement as it comes; the first error ends them all."""
    pool = ThreadPoolExecutor(max_workers=workers)
    try:
        waiting = {
            pool.submit(_judgement, client, key, question, cache): key
            for key, question in questions.items()
        }
        for done in as_completed(waiting):
            yield waiting[done], done.result()
    except BaseException:
        client.stop()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _judgement(
    client: EndpointClient, key: str, question: JudgeQuestion, cache: JudgementCache
) -> Judgement | None:
    for again in (False, True):
        if judgement := parse_scores(client.ask(question.messages(again=again))):
            cache.add(key, judgement)
            return judgement
    return None


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
