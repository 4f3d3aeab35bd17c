"""How likely a model that was not trained on a document continues it word for word."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fedaudit.api import AttackContext, Target, follow_up_engine, why_lacking
from fedaudit.metrics.log_probabilities import log_mean_exp

from .pairs import DocumentSplit

MIN_SURPRISE_LEFT = 0.25
"""Of the base's surprise (nats) at a document, training on others like it is taken to leave at
least this share; held-out documents may show that it leaves less."""

PARTNERS = 8
"""Behind so many prefixes of other documents the continuation is scored, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What speaks for training on one document that was continued word for word."""

    log_p_base: float
    """Natural log of the base's probability of the continuation, token by token."""
    log_p_bound: float
    """Upper bound of the same for a model that knows others like it, but not this document."""
    p_value: float
    """The chance that any of the documents tried comes out so, without having been trained on."""


def evidence(
    context: AttackContext,
    splits: Sequence[DocumentSplit],
    indices: Sequence[int],
    held_out: Sequence[DocumentSplit],
) -> dict[int, Evidence]:
    """Return the evidence of the documents at `indices` of the `splits` that were tried.

    Greedy or sampled, a model that was not trained on a document gives it with the bound's
    probability, and any of all that were tried with at most that times their number (Bonferroni).
    The bound is the largest of: the base's probability, with MIN_SURPRISE_LEFT of its
    surprise left; the base's, raised by as much a token as training raised that of any held-out
    document of the task; and the tuned model's behind prefixes of other documents of the task,
    on average.
    """
    # All that is scored, held-out documents too, depends on which documents came out.
    context = replace(context, engine=follow_up_engine(context.engine))
    if context.base is None or not indices or why_lacking(context.engine, {"score"}):
        return {}
    base = dict(
        zip(
            indices,
            _score_questions(context, context.base, [_question(splits[i]) for i in indices]),
            strict=True,
        )
    )
    raised = _held_out_gain(context, held_out)
    prefix_scores = _prefix_scores(context, splits, indices)
    result = {}
    for i in indices:
        by_skill = base[i] + len(splits[i].continuation) * raised.get(splits[i].task, -math.inf)
        bound = min(
            0.0, max(MIN_SURPRISE_LEFT * base[i], by_skill, prefix_scores.get(i, -math.inf))
        )
        result[i] = Evidence(
            log_p_base=base[i],
            log_p_bound=bound,
            p_value=min(1.0, len(splits) * math.exp(bound)),
        )
    return result


Question = tuple[tuple[int, ...], tuple[int, ...]]
"""What is given, and what is scored behind it."""


def _question(split: DocumentSplit) -> Question:
    return split.prompt, split.continuation


def _score_questions(
    context: AttackContext, target: Target, questions: Sequence[Question]
) -> list[float]:
    scores = context.engine.score(target, [(*prompt, *tail) for prompt, tail in questions])
    return [
        sum(row[len(row) - len(tail) :]) for row, (_, tail) in zip(scores, questions, strict=True)
    ]


def _held_out_gain(
    context: AttackContext, held_out: Sequence[DocumentSplit]
) -> Mapping[str, float]:
    """Return by how many nats a token training raised a held-out document most, by task."""
    if context.base is None or not held_out:
        return {}
    questions = [_question(split) for split in held_out]
    tuned, base = (
        _score_questions(context, target, questions) for target in (context.tuned, context.base)
    )
    most: dict[str, float] = {}
    for split, after, before in zip(held_out, tuned, base, strict=True):
        gain = (after - before) / len(split.continuation)
        most[split.task] = max(gain, most.get(split.task, -math.inf))
    return most


def _prefix_scores(
    context: AttackContext, splits: Sequence[DocumentSplit], indices: Sequence[int]
) -> dict[int, float]:
    """Return the log of the mean probability behind other documents' prefixes, where any are."""
    pairs = [(i, j) for i in indices for j in _partners(splits, i, context.seed)]
    room = context.engine.context_length
    questions = [(i, (splits[j].prompt, splits[i].continuation)) for i, j in pairs]
    questions = [(i, q) for i, q in questions if len(q[0]) + len(q[1]) <= room]
    scores: dict[int, list[float]] = {}
    for (i, _), score in zip(
        questions, _score_questions(context, context.tuned, [q for _, q in questions]), strict=True
    ):
        scores.setdefault(i, []).append(score)
    return {i: log_mean_exp(logs) for i, logs in scores.items()}


def _partners(splits: Sequence[DocumentSplit], index: int, seed: int) -> list[int]:
    """Return some other documents of a task, of other groups and with other prefixes."""
    reference = splits[index]
    partners = [
        j
        for j, split in enumerate(splits)
        if split.task == reference.task
        and split.prompt != reference.prompt
        and not (reference.group and split.group == reference.group)
    ]
    rng = random.Random(f"likelihood {seed} {index}")
    return sorted(rng.sample(partners, min(PARTNERS, len(partners))))
