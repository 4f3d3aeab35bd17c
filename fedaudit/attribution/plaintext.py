"""The context of methods that need plaintext: a federation's rounds as they were stored."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fedaudit.api.attribution import (
    AttributionContext,
    AttributionResult,
    Attributor,
    RoundRecord,
    Scores,
)
from fedaudit.api.errors import InputError
from fedaudit.api.plugin import Aggregator, Update
from fedaudit.api.progress import Progress
from fedaudit.api.watermark import Mark
from fedaudit.attribution.owner import detection
from fedaudit.attribution.owner.worker_pool import DetectionJob, DetectionPool, engine_for
from fedaudit.attribution.server import stored_updates
from fedaudit.config import registry
from fedaudit.federation import adapters
from fedaudit.federation.folder import Federation
from fedaudit.federation.manifest import Round
from fedaudit.report import result_contract


def attribute(
    names: Sequence[str],
    federation: Federation,
    marks: Sequence[Mark],
    pool: DetectionPool,
    *,
    options: Mapping[str, Mapping[str, object]],
    texts: Sequence[str] = (),
    threshold: float,
    seed: int,
    progress: Callable[[str], Progress],
) -> dict[str, AttributionResult]:
    """Return each method's result for the federation's clients, by the method's name."""
    if not names:
        return {}  # and load no model
    manifest, aggregator = federation.manifest, stored_updates.aggregator_of(federation)
    # What a method writes is deleted afterwards.
    with tempfile.TemporaryDirectory(prefix="fedaudit-") as folder:
        context = AttributionContext(
            engine=engine_for(manifest.base.name, manifest.base.sha256, pool.worker_options),
            rounds=[_round_record(federation, aggregator, r) for r in manifest.rounds[1:]],
            last=federation.path / manifest.rounds[-1].adapter,
            aggregator=aggregator,
            marks=detection.watermark_plugins(marks),
            measure=_adapter_scorer(federation, marks, pool),
            write=_writing(aggregator, Path(folder)),
            texts=texts,
            threshold=threshold,
            seed=seed,
            progress=progress,
        )
        methods: list[Attributor] = [
            registry.create("attribution", name, options.get(name)) for name in names
        ]
        return {
            method.name: result_contract.check_attribution(method.name, method.attribute(context))
            for method in methods
        }


def check(method: Attributor, federation: Federation) -> None:
    """Raise InputError if a method needs updates that the folder does not have, or cannot add."""
    if not method.plaintext:
        return
    for record in federation.manifest.rounds[1:]:
        if any(client not in record.clients for client in record.participants):
            raise InputError(
                f"{method.name} needs single clients' updates, which secure aggregation hides: "
                f"round {record.round} has none."
            )
    aggregator = stored_updates.aggregator_of(federation)
    stored_updates.check(federation, aggregator, range(1, len(federation.manifest.rounds)))


def _round_record(federation: Federation, aggregator: Aggregator, record: Round) -> RoundRecord:
    rounds = federation.manifest.rounds
    hidden = any(client not in record.clients for client in record.participants)

    def update(client: str) -> Update:
        start = adapters.read(
            federation.path / stored_updates.start_adapter(federation, aggregator, record)
        )
        return aggregator.difference(start, adapters.read(federation.path / record.clients[client]))

    return RoundRecord(
        round=record.round,
        start=federation.path / rounds[record.round - 1].adapter,
        participants=record.participants,
        updates=None if hidden else update,
    )


def _adapter_scorer(
    federation: Federation, marks: Sequence[Mark], pool: DetectionPool
) -> Callable[[Sequence[Path]], list[Scores]]:
    """Return a function that scores adapters, divided among the worker processes."""
    base = federation.manifest.base

    def score_adapters(chosen: Sequence[Path]) -> list[Scores]:
        shards = [range(k, len(chosen), pool.count()) for k in range(pool.count())]
        jobs = [
            DetectionJob(
                key=key,
                base=base.name,
                sha256=base.sha256,
                adapters=tuple(chosen[i] for i in shard),
                marks=tuple(marks),
            )
            for key, shard in enumerate(shards)
            if shard
        ]
        by_index: dict[int, Scores] = {}
        for key, scores in pool.run(jobs):
            by_index |= dict(zip(shards[key], scores, strict=True))
        return [by_index[i] for i in range(len(chosen))]

    return score_adapters


def _writing(aggregator: Aggregator, root: Path) -> Callable[[Path, Update], Path]:
    written = 0

    def write(start: Path, update: Update) -> Path:
        nonlocal written
        written += 1
        before = adapters.read(start)
        moved = aggregator.moved(before, update)
        config = adapters.resized_config(adapters.check(start), before, moved)
        folder = root / f"{written:05d}"
        adapters.write(moved, config, folder)
        return folder

    return write
