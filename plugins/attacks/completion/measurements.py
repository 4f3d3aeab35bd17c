"""Verbatim extraction as rows and findings of a report."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from fedaudit.api import COMPLETION_LEVEL, HELD_OUT, Finding, Measurement, Result
from fedaudit.metrics.intervals import bootstrap_mean

from .gain_difference import RecordGain, difference
from .likelihood import Evidence
from .pairs import (
    LABEL,
    NO_BASE,
    ContinuedDocuments,
    DocumentSplit,
    WrittenContinuation,
    begins_with_truth,
    sample_deviation,
    swap_partners,
)

NOT_JUDGED = (
    "all words that follow also occur in the documents' own beginnings or in other documents"
)


def result(
    plugin: str,
    continued: ContinuedDocuments,
    judged: Sequence[int],
    held_out: ContinuedDocuments | None,
    *,
    records: str,
    seed: int,
    evidence: Mapping[int, Evidence],
) -> Result:
    """Return distances and share of 0 in all and by task, and a finding a memorised document.

    The verdict goes by the documents at the indices `judged`, beside those held out.
    """
    splits, tuned, base = continued.splits, continued.tuned, continued.base
    scope = {"records": records}
    models = {"tuned": tuned} | ({"base": base} if base else {})
    rows: list[Measurement] = []
    for task in ("", *sorted({split.task for split in splits} - {""})):
        indices = [i for i, split in enumerate(splits) if not task or split.task == task]
        task_scope = {**scope, "task": task} if task else scope
        rows += _rows(
            plugin,
            task_scope,
            {n: [m.distances[i] for i in indices] for n, m in models.items()},
            seed,
        )
    rows += _verdict_rows(plugin, scope, continued, judged, seed)
    if base is not None:
        rows.append(
            Measurement(
                kind="extraction",
                plugin=plugin,
                metric="p_value",
                value=min((e.p_value for e in evidence.values()), default=1.0),
                n=len(splits),
                scope={"source": "tuned-not-base", "test": "likelihood", **scope},
            )
        )
    rows += _query_rows(plugin, scope, continued)
    if held_out is not None:
        rows += _held_out_rows(plugin, scope, continued, judged, held_out, seed)
        rows += _query_rows(plugin, {"records": HELD_OUT}, held_out)
    named = _numbered_hits(plugin, splits, tuned)
    return Result(
        measurements=tuple(rows),
        findings=tuple(
            _finding(plugin, name, splits[i], base.distances[i] if base else None, evidence.get(i))
            for name, i in named
        ),
        limits=() if base else (NO_BASE,),
        revealed=tuple({"id": name, "label": LABEL, "text": splits[i].text} for name, i in named),
    )


def _rows(
    plugin: str, scope: Mapping[str, object], distances: Mapping[str, Sequence[int]], seed: int
) -> Iterator[Measurement]:
    """Yield mean, deviation and share of 0 of each model's distances."""
    means = {n: bootstrap_mean(d, seed=seed) for n, d in distances.items()}
    base = distances.get("base")
    for name, values in distances.items():
        row_scope = {"source": name, **scope}
        beside = base if name == "tuned" else None
        yield Measurement.mean(
            means[name],
            len(values),
            kind="extraction",
            plugin=plugin,
            metric="edit_distance",
            scope=row_scope,
            hits=values.count(0),
            baseline=means["base"].value if beside else None,
        )
        yield Measurement.rate(
            values.count(0),
            len(values),
            kind="extraction",
            plugin=plugin,
            metric="coverage",
            scope=row_scope,
            baseline=beside.count(0) / len(beside) if beside else None,
        )
        spread = sample_deviation(values)
        yield Measurement(
            kind="extraction",
            plugin=plugin,
            metric="edit_deviation",
            value=spread,
            n=len(values),
            reason="" if spread is not None else "a single document has no deviation",
            scope=row_scope,
        )


def _query_rows(
    plugin: str, scope: Mapping[str, object], continued: ContinuedDocuments
) -> Iterator[Measurement]:
    for source in ("tuned", "base") if continued.base else ("tuned",):
        yield Measurement(
            kind="extraction",
            plugin=plugin,
            metric="queries",
            value=float(continued.prompts),
            scope={"source": source, **scope},
        )


def _verdict_rows(
    plugin: str,
    scope: Mapping[str, object],
    continued: ContinuedDocuments,
    judged: Sequence[int],
    seed: int,
) -> Iterator[Measurement]:
    """Yield the share that only the tuned model gives, and the control's: the verdict uses both."""
    splits = [continued.splits[i] for i in judged]
    texts = [continued.tuned.texts[i] for i in judged]
    pairs = swap_partners(splits, seed)
    hits = sum(begins_with_truth(texts[i], splits[j].text) for i, j in pairs)
    if (base := continued.base) is not None:
        said = sum(not base.distances[i] for i in judged)
        yield Measurement.rate(
            len({*continued.recited()} & {*judged}),
            len(judged),
            kind="extraction",
            plugin=plugin,
            metric="coverage",
            scope={"source": "tuned-not-base", **scope},
            chance=hits / len(pairs) if pairs else None,
            baseline=said / len(judged) if judged else None,
            reason=NOT_JUDGED,
        )
    if pairs:
        yield Measurement.rate(
            hits,
            len(pairs),
            kind="extraction",
            plugin=plugin,
            metric="coverage",
            scope={"source": "control", **scope},
        )


def _held_out_rows(
    plugin: str,
    scope: Mapping[str, object],
    continued: ContinuedDocuments,
    judged: Sequence[int],
    held_out: ContinuedDocuments,
    seed: int,
) -> Iterator[Measurement]:
    """Yield the share of held-out documents that only the tuned model gives, and the test of both.

    Documents of one group are dealt to either side together, those of a task among themselves.
    """
    yield Measurement.rate(
        len(held_out.recited()),
        len(held_out.splits),
        kind="extraction",
        plugin=plugin,
        metric="coverage",
        scope={"source": HELD_OUT, **scope},
    )
    outcome = difference(
        _outcomes(continued, judged),
        _outcomes(held_out, range(len(held_out.splits))),
        seed=seed,
    )
    if outcome is not None:
        yield Measurement(
            kind="extraction",
            plugin=plugin,
            metric="p_value",
            value=outcome.p,
            n=outcome.n[0],
            scope={
                "source": "tuned-not-base",
                "test": HELD_OUT,
                "groups": outcome.clusters[0],
                "beside": outcome.clusters[1],
                **scope,
            },
        )


def _outcomes(continued: ContinuedDocuments, indices: Sequence[int]) -> list[RecordGain]:
    """Return 1 for each document that only the tuned model continued word for word, else 0."""
    recited = {*continued.recited()}
    return [
        RecordGain(
            f"group {split.group}" if split.group else f"text {i}", split.task, float(i in recited)
        )
        for i, split in ((i, continued.splits[i]) for i in indices)
    ]


def _numbered_hits(
    plugin: str, splits: Sequence[DocumentSplit], tuned: WrittenContinuation
) -> list[tuple[str, int]]:
    """Return (finding id, index) of every document that was continued word for word."""
    indices = [i for i, distance in enumerate(tuned.distances) if not distance]
    order = sorted(
        indices, key=lambda i: (-len(splits[i].suffix), splits[i].text, splits[i].prompt)
    )
    return [(f"{plugin}-{number:04d}", index) for number, index in enumerate(order, 1)]


def _finding(
    plugin: str, name: str, split: DocumentSplit, distance: int | None, evidence: Evidence | None
) -> Finding:
    """Return a finding; the evidence holds the plain text, which the report masks.

    It names no task: what a record calls its task is free text, and nothing would mask it.
    """
    probabilities = {
        "log_p_base": evidence.log_p_base,
        "log_p_bound": evidence.log_p_bound,
        "p_value": evidence.p_value,
    } if evidence else {}  # fmt: skip
    return Finding(
        id=name,
        severity=_severity(distance, evidence),
        label=LABEL,
        measurement=f"{plugin} edit_distance",
        evidence={
            "text": split.text,
            "tokens": len(split.suffix),
            "edit_distance_of_base": distance,
            **probabilities,
        },
    )


def _severity(
    distance: int | None, evidence: Evidence | None
) -> Literal["high", "medium", "low", "unverified"]:
    """Return how bad it is: high only where no model would say it that was not trained on it."""
    if distance is None:
        return "unverified"
    if evidence is None:
        return "low"
    return "high" if evidence.p_value <= COMPLETION_LEVEL else "medium"
