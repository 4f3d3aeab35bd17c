"""Answers to held-out prompts, and how each is scored: right or not, or by Rouge-L and BLEU."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import fmean

from fedaudit.api.engine import Engine, GenerationBatch, text_start
from fedaudit.api.records import Document, GenerationRequest, Measurement, SamplingParams, Target
from fedaudit.api.templates import PromptTemplate
from fedaudit.metrics.intervals import bootstrap_mean, wilson
from fedaudit.metrics.text_similarity import bleu, is_chosen, is_correct, rouge_l

ACCURACY_TASKS = frozenset({"classification", "exam", "case_matching"})
"""Tasks with one right answer; every other task is measured by Rouge-L and BLEU."""
CHOICE_TASKS = frozenset({"exam", "case_matching"})
"""The tasks among those whose answer is an option's letter, if the reference names one."""
NO_BLEU = "sacrebleu is not installed: pip install 'fedaudit[bleu]'"
TOO_LONG = "every document of the task is longer than the model's context"


@dataclass(frozen=True, slots=True)
class HeldOutAnswer:
    """A model's answer to a held-out document's prompt, and the document with the true one."""

    document: Document
    text: str

    @property
    def task(self) -> str:
        """The document's task; "task" where it has no name."""
        return self.document.task or "task"

    def score(self) -> float:
        """Return 1 or 0 (right or wrong) for a task with one right answer, else Rouge-L (F1)."""
        reference = self.document.output
        if self.task not in ACCURACY_TASKS:
            return rouge_l(reference, self.text)
        right = is_chosen if self.task in CHOICE_TASKS else is_correct
        return float(right(reference, self.text))

    def bleu(self) -> float:
        """Return sentence BLEU, from 0 to 100."""
        return bleu(self.document.output, self.text)


def other_references(tasks: Sequence[Document]) -> list[HeldOutAnswer]:
    """Return each document with another reference: of its task's next document, if one differs."""
    wrong = []
    for index, document in enumerate(tasks):
        following = [*tasks[index + 1 :], *tasks[:index]]
        others = [other for other in following if other.output != document.output]
        if others:
            nearest = min(others, key=lambda other: other.task != document.task)
            wrong.append(HeldOutAnswer(document, nearest.output))
    return wrong


def held_out_answers(
    engine: Engine,
    target: Target,
    tasks: Sequence[Document],
    template: PromptTemplate,
    seed: int,
) -> list[HeldOutAnswer]:
    """Answer each task's prompt greedily.

    A document longer than the model's context is left out and not counted in its task's `n`.
    """
    if not tasks:
        return []
    begin = text_start(engine)
    prompts = engine.tokenize([template.asked(document) for document in tasks])
    references = engine.tokenize([document.output for document in tasks])
    requests = [
        GenerationRequest(
            prompt=(*begin, *p.ids), samples=1, max_new_tokens=min(128, len(w.ids) + 8)
        )
        for p, w in zip(prompts, references, strict=True)
    ]
    pairs = [
        (document, request)
        for document, request in zip(tasks, requests, strict=True)
        if len(request.prompt) + request.max_new_tokens <= engine.context_length
    ]
    generations = engine.generate(
        target,
        GenerationBatch(
            [request for _, request in pairs], seed=seed, decoding=SamplingParams(temperature=0)
        ),
    )
    return [HeldOutAnswer(d, g.texts[0]) for (d, _), g in zip(pairs, generations, strict=True)]


def by_task(
    answers: Sequence[Sequence[HeldOutAnswer]],
    tasks: Sequence[Document],
    scope: Mapping[str, object],
    seed: int,
) -> list[Measurement]:
    """Return each task's rows: accuracy, or the means of Rouge-L and BLEU, with intervals.

    `answers` holds the answers of one model, or of several in the same order. With several, a
    document's score is the mean over the models, and the interval reflects variation between
    documents only.
    """
    groups: dict[str, list[list[HeldOutAnswer]]] = defaultdict(list)
    for same in zip(*answers, strict=True):
        groups[same[0].task].append(list(same))
    names = sorted({document.task or "task" for document in tasks})
    return [
        _row(metric, groups[name], {**scope, "task": name}, seed)
        for name in names
        for metric in (("accuracy",) if name in ACCURACY_TASKS else ("rouge_l", "bleu"))
    ]


def _row(
    metric: str,
    documents: Sequence[Sequence[HeldOutAnswer]],
    where: Mapping[str, object],
    seed: int,
) -> Measurement:
    score = HeldOutAnswer.bleu if metric == "bleu" else HeldOutAnswer.score
    reason = "" if documents else TOO_LONG
    if metric == "bleu" and find_spec("sacrebleu") is None:
        reason = NO_BLEU
    if reason:
        return Measurement.missing(
            reason, kind="utility", plugin="utility", metric=metric, scope=where
        )
    scores = [fmean(score(answer) for answer in same) for same in documents]
    counted = metric == "accuracy" and len(documents[0]) == 1
    hits = round(sum(scores)) if counted else None
    estimate = bootstrap_mean(scores, seed=seed) if hits is None else wilson(hits, len(scores))
    return Measurement.mean(
        estimate,
        len(scores),
        kind="utility",
        plugin="utility",
        metric=metric,
        scope=where,
        hits=hits,
    )
