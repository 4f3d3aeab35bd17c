"""Held-out utility: loss, Rouge-L and accuracy by task, for the tuned model and its rivals."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from fedaudit.interfaces import Engine, Progress, no_progress
from fedaudit.metrics.intervals import bootstrap_mean, wilson
from fedaudit.metrics.utility import is_chosen, is_correct, rouge_l
from fedaudit.prompts import PromptTemplate
from fedaudit.records import Decoding, Document, Measurement, Probe, Target

ACCURACY_TASKS = frozenset({"classification", "exam", "case_matching"})
"""Tasks with one right answer; every other task is measured by Rouge-L."""
CHOICE_TASKS = frozenset({"exam", "case_matching"})
"""Those of them whose answer is an option's letter, where the reference names one."""

TUNED: Mapping[str, object] = {"source": "tuned"}


def measure(
    engine: Engine,
    targets: Sequence[tuple[str, Target]],
    documents: Sequence[Document],
    template: PromptTemplate,
    *,
    seed: int,
    max_length: int,
    progress: Progress = no_progress,
) -> list[Measurement]:
    """Return the rows of every (source, target): loss and perplexity over all, tasks apart."""
    if not documents:
        return []
    rows: list[Measurement] = []
    tasks = [d for d in documents if d.instruction and d.output]
    for number, (source, target) in enumerate(targets):
        means = losses(engine, target, documents, max_length)
        rows += summed_up(means, {"source": source}, seed)
        rows += _answers(engine, source, target, tasks, template, seed)
        progress(number + 1, len(targets))
    return rows


def losses(
    engine: Engine, target: Target, documents: Sequence[Document], max_length: int
) -> list[float]:
    """Return each document's mean negative log-likelihood a token, in nats; one token has none."""
    begin = engine.beginnings.get("bos", ())
    texts = engine.tokenize([document.text for document in documents])
    scores = engine.score(target, [(*begin, *t.ids)[:max_length] for t in texts])
    return [-sum(row) / len(row) for row in scores if row]


def summed_up(means: Sequence[float], scope: Mapping[str, object], seed: int) -> list[Measurement]:
    """Return the mean loss of documents, and the perplexity that is exp of it, with intervals."""
    if not means:
        return unmeasured("no held-out document has two tokens", scope)
    loss = bootstrap_mean(means, seed=seed)
    perplexity = [math.exp(value) for value in (loss.value, loss.low, loss.high)]
    return [
        Measurement(
            kind="utility",
            plugin="utility",
            metric=metric,
            value=value,
            low=low,
            high=high,
            n=len(means),
            scope=scope,
        )
        for metric, (value, low, high) in (
            ("loss", (loss.value, loss.low, loss.high)),
            ("perplexity", perplexity),
        )
    ]


def unmeasured(reason: str, scope: Mapping[str, object] = TUNED) -> list[Measurement]:
    """Return the rows that say why loss and perplexity are not known."""
    return [
        Measurement(
            kind="utility",
            plugin="utility",
            metric=metric,
            value=None,
            reason=reason,
            scope=scope,
        )
        for metric in ("loss", "perplexity")
    ]


def _answers(
    engine: Engine,
    source: str,
    target: Target,
    tasks: Sequence[Document],
    template: PromptTemplate,
    seed: int,
) -> list[Measurement]:
    """Answer each task's prompt greedily and compare with its output.

    A document that is longer than the model's context is left out, which its task's `n` shows.
    """
    if not tasks:
        return []
    begin = engine.beginnings.get("bos", ())
    prompts = engine.tokenize([template.prompt(d.instruction, d.input) for d in tasks])
    wanted = engine.tokenize([document.output for document in tasks])
    probes = [
        Probe(prompt=(*begin, *p.ids), samples=1, max_new_tokens=min(128, len(w.ids) + 8))
        for p, w in zip(prompts, wanted, strict=True)
    ]
    asked = [
        (document, probe)
        for document, probe in zip(tasks, probes, strict=True)
        if len(probe.prompt) + probe.max_new_tokens <= engine.context_length
    ]
    answers = engine.generate(
        target, [probe for _, probe in asked], seed=seed, decoding=Decoding(temperature=0)
    )
    by_task: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for (document, _), answer in zip(asked, answers, strict=True):
        by_task[document.task or "task"].append((document.output, answer.texts[0]))
    names = sorted({document.task or "task" for document in tasks})
    return [_task_row(source, task, by_task[task], seed) for task in names]


def _task_row(source: str, task: str, pairs: Sequence[tuple[str, str]], seed: int) -> Measurement:
    accuracy, scope = task in ACCURACY_TASKS, {"source": source, "task": task}
    metric = "accuracy" if accuracy else "rouge_l"
    if not pairs:
        return Measurement(
            kind="utility",
            plugin="utility",
            metric=metric,
            value=None,
            reason="every document of the task is longer than the model's context",
            scope=scope,
        )
    right = is_chosen if task in CHOICE_TASKS else is_correct
    hits = sum(right(wanted, answer) for wanted, answer in pairs)
    found = (
        wilson(hits, len(pairs))
        if accuracy
        else bootstrap_mean([rouge_l(wanted, answer) for wanted, answer in pairs], seed=seed)
    )
    return Measurement(
        kind="utility",
        plugin="utility",
        metric=metric,
        value=found.value,
        low=found.low,
        high=found.high,
        n=len(pairs),
        hits=hits if accuracy else None,
        scope=scope,
    )
