"""How likely somebody who was not trained on a document would continue it word for word."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedaudit.api import AttackContext, Target, why_lacking

from .pairs import Cut

LEFT = 0.25
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
    """The same of somebody who knows others like it, but not this document; at most."""
    p_value: float
    """The chance that any of the documents tried comes out so, without having been trained on."""


def evidence(
    case: AttackContext, cuts: Sequence[Cut], which: Sequence[int], held_out: Sequence[Cut]
) -> dict[int, Evidence]:
    """Return the evidence of the documents `which` of the `cuts` that were tried.

    Greedy or sampled, a model that was not trained on a document gives it with the bound's
    probability, and any of all that were tried with at most that times their number (Bonferroni).
    The bound is the largest of: the base's probability, with LEFT of its surprise left; the base's,
    raised by as much a token as training raised that of any held-out document of the task; and the
    tuned model's behind prefixes of other documents of the task, on average.
    """
    if case.base is None or not which or why_lacking(case.engine, {"score"}):
        return {}
    base = dict(zip(which, _scored(case, case.base, [_whole(cuts[i]) for i in which]), strict=True))
    raised = _raised(case, held_out)
    apart = _apart(case, cuts, which)
    found = {}
    for i in which:
        by_skill = base[i] + len(cuts[i].rest) * raised.get(cuts[i].task, -math.inf)
        bound = min(0.0, max(LEFT * base[i], by_skill, apart.get(i, -math.inf)))
        found[i] = Evidence(
            log_p_base=base[i],
            log_p_bound=bound,
            p_value=min(1.0, len(cuts) * math.exp(bound)),
        )
    return found


Question = tuple[tuple[int, ...], tuple[int, ...]]
"""What is given, and what is scored behind it."""


def _whole(cut: Cut) -> Question:
    return cut.prompt, cut.rest


def _scored(case: AttackContext, target: Target, questions: Sequence[Question]) -> list[float]:
    scores = case.engine.score(target, [(*prompt, *rest) for prompt, rest in questions])
    return [
        sum(row[len(row) - len(rest) :]) for row, (_, rest) in zip(scores, questions, strict=True)
    ]


def _raised(case: AttackContext, held_out: Sequence[Cut]) -> Mapping[str, float]:
    """Return by how many nats a token training raised a held-out document most, by task."""
    if case.base is None or not held_out:
        return {}
    questions = [_whole(cut) for cut in held_out]
    tuned, base = (_scored(case, target, questions) for target in (case.tuned, case.base))
    most: dict[str, float] = {}
    for cut, after, before in zip(held_out, tuned, base, strict=True):
        gain = (after - before) / len(cut.rest)
        most[cut.task] = max(gain, most.get(cut.task, -math.inf))
    return most


def _apart(case: AttackContext, cuts: Sequence[Cut], which: Sequence[int]) -> dict[int, float]:
    """Return the log of the mean probability behind other documents' prefixes, where any are."""
    pairs = [(i, j) for i in which for j in _others(cuts, i, case.seed)]
    room = case.engine.context_length
    asked = [(i, (cuts[j].prompt, cuts[i].rest)) for i, j in pairs]
    asked = [(i, q) for i, q in asked if len(q[0]) + len(q[1]) <= room]
    scores: dict[int, list[float]] = {}
    for (i, _), score in zip(asked, _scored(case, case.tuned, [q for _, q in asked]), strict=True):
        scores.setdefault(i, []).append(score)
    return {i: _log_mean(some) for i, some in scores.items()}


def _others(cuts: Sequence[Cut], index: int, seed: int) -> list[int]:
    """Return some other documents of a task, of other groups and with other prefixes."""
    own = cuts[index]
    others = [
        j
        for j, cut in enumerate(cuts)
        if cut.task == own.task
        and cut.prompt != own.prompt
        and not (own.group and cut.group == own.group)
    ]
    rng = random.Random(f"likelihood {seed} {index}")
    return sorted(rng.sample(others, min(PARTNERS, len(others))))


def _log_mean(logs: Sequence[float]) -> float:
    top = max(logs)
    return top + math.log(math.fsum(math.exp(one - top) for one in logs) / len(logs))
