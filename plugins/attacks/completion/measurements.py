"""Verbatim extraction as rows and findings of a report."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial

from fedaudit.api import COMPLETION_LEVEL, HELD_OUT, Finding, Measurement, Result, Severity
from fedaudit.extraction.findings import numbered, revealed
from fedaudit.extraction.scoring import NO_BASE
from fedaudit.metrics.intervals import bootstrap_mean

from .gain_difference import RecordGain, difference
from .likelihood import Evidence
from .pairs import (
    LABEL,
    ContinuedDocuments,
    DocumentSplit,
    begins_with_truth,
    query_rows,
    sample_deviation,
    split_by_task,
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
    splits, base = continued.splits, continued.base
    scope = {"records": records}
    rows: list[Measurement] = []
    for task_scope, indices in split_by_task(splits):
        distances = {
            name: [model.distances[i] for i in indices]
            for name, model in continued.models().items()
        }
        rows += _rows(plugin, {**scope, **task_scope}, distances, seed)
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
    sources, prompts = continued.models(), len({split.prompt for split in splits})
    rows += query_rows(plugin, sources, prompts, records)
    if held_out is not None:
        rows += _held_out_rows(plugin, scope, continued, judged, held_out, seed)
        prompts = len({split.prompt for split in held_out.splits})
        rows += query_rows(plugin, sources, prompts, HELD_OUT)
    hits = [i for i, distance in enumerate(continued.tuned.distances) if not distance]
    hits.sort(key=lambda i: (-len(splits[i].suffix), splits[i].text, splits[i].prompt))
    findings = tuple(
        _finding(plugin, name, splits[i], base.distances[i] if base else None, evidence.get(i))
        for name, i in numbered(plugin, hits)
    )
    return Result(
        measurements=tuple(rows),
        findings=findings,
        limits=() if base else (NO_BASE,),
        revealed=revealed(findings),
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


def _verdict_rows(
    plugin: str,
    scope: Mapping[str, object],
    continued: ContinuedDocuments,
    judged: Sequence[int],
    seed: int,
) -> Iterator[Measurement]:
    """Yield the share that only the tuned model gives, and the control's: the verdict uses both."""
    rate = partial(Measurement.rate, kind="extraction", plugin=plugin, metric="coverage")
    splits = [continued.splits[i] for i in judged]
    texts = [continued.tuned.texts[i] for i in judged]
    pairs = swap_partners(splits, seed)
    hits = sum(begins_with_truth(texts[i], splits[j].text) for i, j in pairs)
    if (base := continued.base) is not None:
        said = sum(not base.distances[i] for i in judged)
        yield rate(
            len({*continued.recited()} & {*judged}),
            len(judged),
            scope={"source": "tuned-not-base", **scope},
            chance=hits / len(pairs) if pairs else None,
            baseline=said / len(judged) if judged else None,
            reason=NOT_JUDGED,
        )
    if pairs:
        yield rate(hits, len(pairs), scope={"source": "control", **scope})


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
    recited, splits = {*continued.recited()}, continued.splits
    return [RecordGain(splits[i].cluster(i), splits[i].task, float(i in recited)) for i in indices]


def _finding(
    plugin: str, name: str, split: DocumentSplit, distance: int | None, evidence: Evidence | None
) -> Finding:
    """Return a finding; the evidence holds the plain text, which the report masks.

    It names no task: what a record calls its task is free text, and nothing would mask it.
    """
    severity: Severity
    if distance is None:
        severity = "unverified"
    elif evidence is None:
        severity = "low"
    else:  # high only where no model would say it that was not trained on it
        severity = "high" if evidence.p_value <= COMPLETION_LEVEL else "medium"
    return Finding(
        id=name,
        severity=severity,
        label=LABEL,
        measurement=f"{plugin} edit_distance",
        evidence={
            "text": split.text,
            "tokens": len(split.suffix),
            "edit_distance_of_base": distance,
            **(asdict(evidence) if evidence else {}),
        },
    )
