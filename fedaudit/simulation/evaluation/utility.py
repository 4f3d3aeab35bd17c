"""Held-out utility: loss, Rouge-L and accuracy by task, for the tuned model and its rivals."""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from fedaudit.api.engine import Engine, text_start
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Document, Measurement, Target
from fedaudit.api.templates import PromptTemplate
from fedaudit.metrics.intervals import Estimate, bootstrap_mean
from fedaudit.simulation.evaluation.answers import (
    HeldOutAnswer,
    by_task,
    held_out_answers,
    other_references,
)

TUNED: Mapping[str, object] = {"source": "tuned"}
CONTROL = "control"
"""The source of answers that are references of other prompts: a judge should think less of them."""

AnswerJudge = Callable[[Sequence[HeldOutAnswer], Mapping[str, object]], Sequence[Measurement]]
"""A function that returns a judge's scores for the answers of the model in the scope."""


def measure(
    engine: Engine,
    targets: Sequence[tuple[str, Target | Sequence[Target]]],
    documents: Sequence[Document],
    template: PromptTemplate,
    *,
    seed: int,
    max_length: int,
    judge: AnswerJudge | None = None,
    progress: Progress = no_progress,
) -> list[Measurement]:
    """Return the rows of every (source, target): loss and perplexity over all, tasks apart.

    If a source has several models, their mean is measured, document by document; `scope.clients` is
    their number. The judge reads their answers in turn, one model per document, and last of all
    references of other prompts, as a control of the judge.
    """
    if not documents:
        return []
    rows: list[Measurement] = []
    tasks = [d for d in documents if d.instruction and d.output]
    for number, (source, target) in enumerate(targets):
        models = [target] if isinstance(target, Target) else list(target)
        scope: dict[str, object] = {"source": source}
        scope |= {} if isinstance(target, Target) else {"clients": len(models)}
        every = [losses(engine, model, documents, max_length) for model in models]
        rows += loss_rows([fmean(same) for same in zip(*every, strict=True)], scope, seed)
        answers = [held_out_answers(engine, model, tasks, template, seed) for model in models]
        rows += by_task(answers, tasks, scope, seed)
        if judge:
            turns = enumerate(zip(*answers, strict=True))
            rows += judge([same[turn % len(same)] for turn, same in turns], scope)
        progress(number + 1, len(targets))
    if judge and (wrong := other_references(tasks)):
        rows += judge(wrong, {"source": CONTROL})
    return rows


def losses(
    engine: Engine, target: Target, documents: Sequence[Document], max_length: int
) -> list[float]:
    """Return each document's mean loss per token in nats; a document of one token has none."""
    begin = text_start(engine)
    texts = engine.tokenize([document.text for document in documents])
    scores = engine.score(target, [(*begin, *t.ids)[:max_length] for t in texts])
    return [-sum(row) / len(row) for row in scores if row]


def loss_rows(means: Sequence[float], scope: Mapping[str, object], seed: int) -> list[Measurement]:
    """Return the mean loss of documents, and the perplexity that is exp of it, with intervals."""
    if not means:
        return missing_rows("no held-out document has two tokens", scope)
    loss = bootstrap_mean(means, seed=seed)
    perplexity = Estimate(*(math.exp(value) for value in (loss.value, loss.low, loss.high)))
    return [
        Measurement.mean(
            estimate, len(means), kind="utility", plugin="utility", metric=metric, scope=scope
        )
        for metric, estimate in (("loss", loss), ("perplexity", perplexity))
    ]


def missing_rows(reason: str, scope: Mapping[str, object] = TUNED) -> list[Measurement]:
    """Return the rows that say why loss and perplexity are not known."""
    return [
        Measurement.missing(reason, kind="utility", plugin="utility", metric=metric, scope=scope)
        for metric in ("loss", "perplexity")
    ]
