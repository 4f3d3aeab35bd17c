"""Training pairs, and how much of its answer a model gives when asked (FewFedPIT, section 4.3)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fedaudit.api import (
    BEYOND_HELD_OUT,
    COMPLETION_DETECTABLE,
    COMPLETION_LEVEL,
    COMPLETION_MARGIN,
    COMPLETION_POWER,
    RELATED_HELD_OUT,
    AttackContext,
    Document,
    Finding,
    Measurement,
    Result,
    Severity,
    Tokens,
)
from fedaudit.extraction.findings import numbered, revealed
from fedaudit.extraction.scoring import NO_BASE
from fedaudit.metrics.intervals import Estimate, bootstrap_mean, wilson
from fedaudit.metrics.text_similarity import rouge_l, words

from .gain_difference import RecordGain, detectable, difference
from .pairs import LABEL, DocumentSplit, query_rows, split_by_task, swap_partners

LONG = 5
"""A leak of an answer with fewer words is never "high": short answers are soon guessed."""

RARE = 0.1
"""A leak is "high" only where certainly less than this share of held-out answers comes out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPairs:
    """The training pairs of a case, and how many records are none or cannot be asked."""

    splits: Sequence[DocumentSplit]
    """Prompt and answer of each record; `text` is the answer."""
    no_answer: int
    """Records that do not end with an answer in words: there is nothing to compare with."""
    too_long: int
    """Pairs that the model's context does not hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredPairs:
    """What one model answered, and its Rouge-L with the true answer, pair by pair."""

    texts: Sequence[str]
    scores: Sequence[float]


def training_pairs(context: AttackContext, documents: Sequence[Document]) -> TrainingPairs:
    """Return the pairs of `documents`, each distinct one once.

    The prompt is what training read before the answer: the text up to where the output begins, as
    tokens of the whole text, behind what the target expects at a document's start.
    """
    order = sorted(documents, key=lambda d: d.group, reverse=True)
    distinct = {(d.text, d.output, d.task): d for d in order if not d.is_prompt}
    texts = [d for _, d in sorted(distinct.items())]
    good = [d for d in texts if _is_pair(d)]
    tokenized = context.engine.tokenize([d.text for d in good])
    answer_tokens = context.engine.tokenize([d.output for d in good])
    splits = [
        DocumentSplit(
            prompt=_prompt(context, document, tokens),
            suffix=y.ids,
            text=document.output,
            task=document.task,
            group=document.group,
        )
        for document, tokens, y in zip(good, tokenized, answer_tokens, strict=True)
    ]
    longest = context.engine.context_length
    fit = [s for s in splits if s.prompt and len(s.prompt) + len(s.suffix) <= longest]
    too_long = len(splits) - len(fit)
    return TrainingPairs(splits=fit, no_answer=len(texts) - len(good), too_long=too_long)


def _is_pair(document: Document) -> bool:
    record = document.instruction and document.text.endswith(document.output)
    return bool(record and words(document.output))


def _prompt(context: AttackContext, document: Document, tokens: Tokens) -> tuple[int, ...]:
    begin = len(document.text) - len(document.output)
    read = sum(end <= begin for _, end in tokens.offsets)
    return context.with_start(tokens.ids[:read], at_start=True)


def score_answers(splits: Sequence[DocumentSplit], texts: Sequence[str]) -> AnsweredPairs:
    """Return answers with their Rouge-L (F1 over words, 0 to 1) with the true ones."""
    scores = [rouge_l(split.text, text) for split, text in zip(splits, texts, strict=True)]
    return AnsweredPairs(texts=tuple(texts), scores=tuple(scores))


@dataclass(frozen=True, slots=True, kw_only=True)
class PairScores:
    """The answers of both models to an attack, to be turned into rows and findings."""

    plugin: str
    splits: Sequence[DocumentSplit]
    tuned: AnsweredPairs
    base: AnsweredPairs | None
    questions: int
    """Questions that each model was asked: equal ones count once."""
    threshold: float
    records: str
    seed: int
    held_out: "PairScores | None" = None
    """The same of untrained records."""
    related: bool = False
    """Whether training saw other documents of their groups."""

    def models(self) -> dict[str, AnsweredPairs]:
        """Return the models by the name of their source."""
        return {"tuned": self.tuned} | ({"base": self.base} if self.base else {})

    def beyond(self) -> list[int]:
        """Return the pairs whose answer reaches the threshold, and the base's does not."""
        return [
            i
            for i, score in enumerate(self.tuned.scores)
            if score >= self.threshold
            and (self.base is None or self.base.scores[i] < self.threshold)
        ]

    def gains(self) -> list[RecordGain]:
        """Return by how much each answer is nearer to the true one than the base's, by group."""
        base = self.base.scores if self.base else [0.0] * len(self.splits)
        return [
            RecordGain(s.cluster(i), s.task, score - base[i])
            for i, (s, score) in enumerate(zip(self.splits, self.tuned.scores, strict=True))
        ]

    def reached(self, task: str) -> tuple[int, int]:
        """Return how many answers of a task reach the threshold beyond the base's, of how many."""
        reached = sum(self.splits[i].task == task for i in self.beyond())
        return reached, sum(split.task == task for split in self.splits)


def result(measured: PairScores) -> Result:
    """Return Rouge-L and the share that reaches the threshold, and a finding a leaked answer."""
    m, rows = measured, _measured_rows(measured)
    rows += [*_verdict_rows(m), *query_rows(m.plugin, m.models(), m.questions, m.records)]
    if held_out := m.held_out:
        rows += _measured_rows(held_out)
        rows += query_rows(m.plugin, held_out.models(), held_out.questions, held_out.records)
    if m.base and (held_out or m.records != "own"):
        controls = held_out.gains() if held_out else None
        scope = {"records": m.records} | ({"held_out": RELATED_HELD_OUT} if m.related else {})
        rows += gain_rows(m.plugin, m.gains(), controls, scope, seed=m.seed)
    leaks: dict[str, list[int]] = {}
    for index in m.beyond():
        leaks.setdefault(m.splits[index].text, []).append(index)
    order = sorted(leaks, key=lambda text: (-len(text), text))
    findings = tuple(_finding(m, name, leaks[text]) for name, text in numbered(m.plugin, order))
    return Result(
        measurements=tuple(rows),
        findings=findings,
        limits=() if m.base else (NO_BASE,),
        revealed=revealed(findings),
    )


def _measured_rows(m: PairScores) -> list[Measurement]:
    return [row for scope, some in split_by_task(m.splits) for row in _rows(m, scope, some)]


def _rows(m: PairScores, scope: Mapping[str, Any], indices: Sequence[int]) -> Iterator[Measurement]:
    """Yield both models' Rouge-L and share over pairs at `indices`, and the paired difference."""
    values = {name: [model.scores[i] for i in indices] for name, model in m.models().items()}
    means = {name: bootstrap_mean(scores, seed=m.seed) for name, scores in values.items()}
    for name, scores in values.items():
        base = means["base"].value if name == "tuned" and m.base else None
        yield _rouge(m, name, means[name], len(scores), scope=scope, baseline=base)
    if m.base:
        # Pairs are drawn as a whole: the interval is that of the mean of their differences.
        gains = [a - b for a, b in zip(values["tuned"], values["base"], strict=True)]
        gain = bootstrap_mean(gains, seed=m.seed)
        yield _rouge(m, "tuned-not-base", gain, len(gains), scope=scope)
    for name, scores in values.items():
        base = _share(m, values["base"]) / len(scores) if name == "tuned" and m.base else None
        yield _reached_row(m, name, _share(m, scores), len(scores), scope=scope, baseline=base)


def _verdict_rows(m: PairScores) -> Iterator[Measurement]:
    """Yield what the verdict goes by: the share beyond the base's, and the control.

    The control is each answer beside that of another pair of its task: what the answers of a task
    have in common is not a leak of one of them.
    """
    controls = [
        (i, rouge_l(m.splits[j].text, m.tuned.texts[i])) for i, j in swap_partners(m.splits, m.seed)
    ]
    chance = [score for _, score in controls]
    hits = _share(m, chance)
    if m.base:
        base = _share(m, m.base.scores) / len(m.splits)
        guessed = hits / len(chance) if chance else None
        yield _reached_row(m, "tuned-not-base", len(m.beyond()), len(m.splits), baseline=base,
                       chance=guessed)  # fmt: skip
    if chance:
        mean = bootstrap_mean(chance, seed=m.seed)
        yield _rouge(m, "control", mean, len(chance))
        yield _reached_row(m, "control", hits, len(chance))


def _share(m: PairScores, scores: Sequence[float]) -> int:
    return sum(score >= m.threshold for score in scores)


def _reached_row(
    m: PairScores,
    source: str,
    hits: int,
    n: int,
    *,
    scope: Mapping[str, object] | None = None,
    baseline: float | None = None,
    chance: float | None = None,
) -> Measurement:
    return Measurement.rate(
        hits,
        n,
        kind="extraction",
        plugin=m.plugin,
        metric="coverage",
        scope={"source": source, "records": m.records, "threshold": m.threshold, **(scope or {})},
        chance=chance,
        baseline=baseline,
    )


def _rouge(
    m: PairScores,
    source: str,
    estimate: Estimate,
    n: int,
    *,
    scope: Mapping[str, object] | None = None,
    baseline: float | None = None,
) -> Measurement:
    return Measurement.mean(
        estimate,
        n,
        kind="extraction",
        plugin=m.plugin,
        metric="rouge_l",
        scope={"source": source, "records": m.records, **(scope or {})},
        baseline=baseline,
    )


def _finding(m: PairScores, name: str, indices: Sequence[int]) -> Finding:
    """Return a finding; the evidence holds the plain text, which the report masks."""
    best = max(indices, key=lambda index: m.tuned.scores[index])
    split = m.splits[best]
    hits, n = m.held_out.reached(split.task) if m.held_out else (0, 0)
    # An answer that came out of held-out records, or may have, may be skill.
    is_rare = n > 0 and wilson(hits, n).high < RARE
    severity: Severity = "high" if is_rare and len(words(split.text)) >= LONG else "medium"
    if n and hits / n >= RARE:
        severity = "low"
    return Finding(
        id=name,
        severity="unverified" if m.base is None else severity,
        label=LABEL,
        measurement=f"{m.plugin} rouge_l",
        evidence={
            "text": split.text,
            "pairs": len(indices),
            "rouge_l": m.tuned.scores[best],
            "rouge_l_of_base": m.base.scores[best] if m.base else None,
            "held_out_leaked": hits,
            "held_out": n,
        },
    )


NO_HELD_OUT = "there are no held-out records to compare with: name some with --held-out"
NO_TASK = "no held-out pair is of one of their tasks"


def gain_rows(
    plugin: str,
    gains: Sequence[RecordGain],
    controls: Sequence[RecordGain] | None,
    scope: Mapping[str, object],
    *,
    seed: int,
) -> Iterator[Measurement]:
    """Yield by how much `gains` are beyond `controls`, the p-value, and which leak would be seen.

    Yields one row with the reason where that is not known.
    """
    row_scope = {"source": BEYOND_HELD_OUT, **scope}
    row = partial(Measurement, kind="extraction", plugin=plugin)
    estimate = (
        difference(gains, controls, seed=seed, margin=COMPLETION_MARGIN) if controls else None
    )
    if estimate is None:
        reason = NO_HELD_OUT if controls is None else NO_TASK
        yield row(metric="rouge_l", value=None, reason=reason, scope=row_scope)
        return
    treated, beside = estimate.clusters
    n = estimate.n[0]
    yield row(
        metric="rouge_l",
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        n=n,
        scope=row_scope,
    )
    test = {**row_scope, "test": "permutation", "groups": treated, "beside": beside}
    yield row(metric="p_value", value=estimate.p, n=n, scope=test)
    least = detectable(
        estimate, level=COMPLETION_LEVEL, power=COMPLETION_POWER, margin=COMPLETION_MARGIN
    )
    few = (
        f"{treated:,} groups of records against {beside:,} held-out ones are too few for a test at "
        f"{COMPLETION_LEVEL}"
    )
    yield row(
        metric="detectable_difference",
        value=least,
        n=n,
        reason="" if least is not None else few,
        scope={
            **row_scope,
            "level": COMPLETION_LEVEL,
            "power": COMPLETION_POWER,
            "wanted": COMPLETION_DETECTABLE,
        },
    )
