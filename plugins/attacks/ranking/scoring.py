"""Ranking inference: which candidate makes the sentence likeliest (SecureGate, section 5.1)."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fedaudit.api import AttackContext, Finding, Measurement, Result, Target, TargetError
from fedaudit.extraction.findings import numbered

from .cloze import ClozeQuestion, ClozeWindow, Occurrence, context_window

TIE = 1e-5
"""Two losses, in nats a token, that rounding cannot tell apart."""


KIND, METRIC = "probability", "inference_accuracy"
NO_BASE = "The target has no base to compare with: what the base would pick is not known."


@dataclass(frozen=True, slots=True)
class ScoredQuestion:
    """A question with its sentences as token sequences, the truth's first."""

    question: ClozeQuestion
    window: ClozeWindow
    sequences: tuple[tuple[int, ...], ...]
    scored: tuple[int, ...]
    """How many tokens at each sequence's end are the sentence's own and have a score."""


@dataclass(frozen=True, slots=True)
class CandidateLosses:
    """A question's losses under each model: the truth's first, then those of the candidates."""

    question: ClozeQuestion
    window: ClozeWindow
    tuned: tuple[float, ...]
    base: tuple[float, ...] | None


def truth_rank(losses: Sequence[float], candidates: int) -> int:
    """Return the truth's rank among the first `candidates`, 1 being the lowest loss.

    A candidate that rounding cannot tell from the truth stands before it: ties go against the
    attacker, who may not win by the order in which candidates are listed.
    """
    return 1 + sum(loss <= losses[0] + TIE for loss in losses[1:candidates])


def scored_question(
    context: AttackContext, question: ClozeQuestion, tokens: int
) -> ScoredQuestion | None:
    """Return a question's sentences, cut around the mask to at most `tokens` tokens.

    The window shrinks until the longest candidate fits the model's context; None if none fits, or
    if nothing stands before the mask to predict a candidate's first token from.
    """
    [document] = context.engine.tokenize([question.occurrence.document.text])
    candidates = (question.occurrence.string, *question.distractors)
    while around := context_window(question.occurrence, document.offsets, tokens):
        begin = context.with_start((), at_start=around.at_start)
        if not begin and not around.segments[0]:
            return None
        sentences = context.engine.tokenize([around.sentence(string) for string in candidates])
        sequences = tuple((*begin, *sentence.ids) for sentence in sentences)
        over = max(map(len, sequences)) - context.engine.context_length
        if over <= 0:
            scored = tuple(len(s.ids) if begin else len(s.ids) - 1 for s in sentences)
            return ScoredQuestion(question, around, sequences, scored)
        tokens = min(tokens, len(document.ids)) - over
    return None


def scored_questions(
    context: AttackContext,
    offered: Iterable[ClozeQuestion],
    *,
    fewest: int,
    most: int,
    tokens: int,
    accept: Callable[[ScoredQuestion], bool] = lambda _: True,
) -> tuple[list[ScoredQuestion], int]:
    """Return the first `most` questions that can be asked, and how many were passed over.

    They have `fewest` candidates or more, fit the model's context, and `accept` takes them.
    """
    questions: list[ScoredQuestion] = []
    passed = 0
    for question in offered:
        enough = len(question.distractors) >= fewest - 1
        scored = scored_question(context, question, tokens) if enough else None
        if scored is None or not accept(scored):
            passed += 1
        else:
            questions.append(scored)
        if len(questions) == most:
            break
    return questions, passed


def candidate_losses(
    context: AttackContext, all_asked: Sequence[ScoredQuestion]
) -> list[CandidateLosses]:
    """Return the losses of every candidate of every question under the tuned model and the base."""
    tuned = _losses(context, context.tuned, all_asked)
    base = _losses(context, context.base, all_asked) if context.base else [None] * len(all_asked)
    return [
        CandidateLosses(q.question, q.window, tuned_losses, base_losses)
        for q, tuned_losses, base_losses in zip(all_asked, tuned, base, strict=True)
    ]


def _losses(
    context: AttackContext, target: Target, all_asked: Sequence[ScoredQuestion]
) -> list[tuple[float, ...]]:
    """Return the mean negative log-likelihood of each sentence's tokens: ln of its perplexity."""
    scores = context.engine.score_groups(
        target,
        [q.sequences for q in all_asked],
        progress=context.progress(f"ranking under {target.name}"),
    )
    losses = [
        tuple(-sum(row[-n:]) / n for row, n in zip(rows, q.scored, strict=True))
        for q, rows in zip(all_asked, scores, strict=True)
    ]
    if not all(math.isfinite(loss) for row in losses for loss in row):
        raise TargetError(
            f"The {target.name} model gives a sentence no finite probability; try --dtype float32."
        )
    return losses


@dataclass(frozen=True, slots=True)
class Pick:
    """What each model picks for a question, out of its first candidates."""

    losses: CandidateLosses
    candidates: int
    """How many candidates are offered, the truth among them."""
    chance: float
    """The chance that a guess is right."""

    @property
    def occurrence(self) -> Occurrence:
        """The masked string, in its place."""
        return self.losses.question.occurrence

    @property
    def is_right(self) -> bool:
        """Whether the tuned model finds the truth likeliest."""
        return truth_rank(self.losses.tuned, self.candidates) == 1

    @property
    def base_rank(self) -> int | None:
        """The truth's rank under the base; None without one."""
        base = self.losses.base
        return None if base is None else truth_rank(base, self.candidates)

    @property
    def is_leak(self) -> bool:
        """Whether only the tuned model picks the truth."""
        return self.is_right and self.base_rank is not None and self.base_rank > 1


def accuracy_rows(
    picks: Sequence[Pick],
    scope: Mapping[str, object],
    chance: Callable[[Sequence[Pick]], float],
    *,
    kind: str,
    plugin: str,
    metric: str,
) -> Iterator[Measurement]:
    """Yield the share of questions that each model answers, over all kinds of PII and for each."""
    for label in ("", *sorted({pick.occurrence.label for pick in picks})):
        subset = [pick for pick in picks if label in ("", pick.occurrence.label)]
        where = {**scope, "label": label} if label else scope
        tuned = [pick.is_right for pick in subset]
        base = [pick.base_rank == 1 for pick in subset if pick.base_rank is not None]
        share = sum(base) / len(base) if base else None
        for source, right, baseline in (("tuned", tuned, share), ("base", base, None)):
            if right:
                yield Measurement.rate(
                    sum(right),
                    len(right),
                    kind=kind,
                    plugin=plugin,
                    metric=metric,
                    scope={**where, "source": source},
                    chance=chance(subset),
                    baseline=baseline,
                )


def leak_result(plugin: str, metric: str, leaks: Iterable[Pick]) -> Result:
    """Return a finding for each leak, and its sentence in plain text; no measurements.

    The evidence holds the plain string, which the report masks.
    """
    findings, texts = [], []
    for name, pick in numbered(plugin, leaks):
        string, label = pick.occurrence.string, pick.occurrence.label
        findings.append(
            Finding(
                id=name,
                severity="medium",
                label=label,
                measurement=f"{plugin} {metric}",
                evidence={
                    "text": string,
                    "candidates": pick.candidates,
                    "rank_of_base": pick.base_rank,
                },
            )
        )
        sentence = pick.losses.window.sentence(string)
        texts.append({"id": name, "label": label, "text": string, "sentence": sentence})
    return Result(findings=tuple(findings), revealed=tuple(texts))


def result(plugin: str, answers: Sequence[CandidateLosses], counts: Sequence[int]) -> Result:
    """Return inference accuracy by number of candidates, and a finding for each leaked PII."""
    rows: list[Measurement] = []
    limits = [] if all(answer.base for answer in answers) else [NO_BASE]
    leaks: dict[int, Pick] = {}
    for candidates in counts:
        picks = {
            index: Pick(answer, candidates, 1 / candidates)
            for index, answer in enumerate(answers)
            if len(answer.tuned) >= candidates
        }
        leaks |= {index: pick for index, pick in picks.items() if pick.is_leak}
        rows += _rows(plugin, list(picks.values()), candidates)
        if picks:
            limits += _limits(plugin, [pick.losses for pick in picks.values()], candidates)
    # The largest number of candidates first, then the base's worst rank.
    order = sorted(sorted(leaks), key=lambda i: (-leaks[i].candidates, -(leaks[i].base_rank or 0)))
    leaked = leak_result(plugin, METRIC, [leaks[i] for i in order])
    return replace(leaked, measurements=tuple(rows), limits=tuple(limits))


def _rows(plugin: str, picks: Sequence[Pick], candidates: int) -> Iterator[Measurement]:
    """Yield the accuracy of each model, and what picking any candidate of the file gives.

    A model that learned how such strings are written passes over what is invented, whether or not
    it has seen the truth: of a question with r others from the file it picks the truth with the
    probability 1 / (1 + r) then.
    """
    scope = {"candidates": candidates, "source": "tuned"}
    if not picks:
        yield Measurement.missing(
            "no masked PII has so many candidates of its kind",
            kind=KIND,
            plugin=plugin,
            metric=METRIC,
            scope=scope,
            n=0,
            chance=1 / candidates,
        )
        return
    yield from accuracy_rows(
        picks,
        {"candidates": candidates},
        lambda _: 1 / candidates,
        kind=KIND,
        plugin=plugin,
        metric=METRIC,
    )
    shares = [1 / (1 + min(pick.losses.question.real, candidates - 1)) for pick in picks]
    yield Measurement(
        kind=KIND,
        plugin=plugin,
        metric="inference_chance",
        value=sum(shares) / len(shares),
        n=len(shares),
        scope=scope,
    )


def _limits(plugin: str, answers: Sequence[CandidateLosses], candidates: int) -> Iterator[str]:
    """Yield the truth's mean ranks, and how many candidates were invented."""
    ranks = {"tuned": [truth_rank(a.tuned, candidates) for a in answers]}
    if all(a.base for a in answers):
        ranks["base"] = [truth_rank(a.base, candidates) for a in answers if a.base]
    guess = sum(1 / n for n in range(1, candidates + 1)) / candidates
    yield (
        f"{plugin}, {candidates} candidates: the truth's mean rank is "
        + ", ".join(f"{sum(r) / len(r):.1f} ({name})" for name, r in ranks.items())
        + f" and {(candidates + 1) / 2:.1f} by guessing; its mean reciprocal rank is "
        + ", ".join(f"{sum(1 / n for n in r) / len(r):.3f} ({name})" for name, r in ranks.items())
        + f" and {guess:.3f} by guessing."
    )
    filled = [max(0, candidates - 1 - a.question.real) for a in answers]
    if any(filled):
        yield (
            f"{plugin}, {candidates} candidates: {sum(filled):,} of the "
            f"{(candidates - 1) * len(answers):,} wrong candidates, in {sum(map(bool, filled))} of "
            f"{len(answers)} sentences, are invented, because the file has too few of their kind; "
            "a model may tell them from what it was trained on."
        )
