"""What the methods that need plaintext are given: a federation's rounds as they were left."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from fedaudit.attribution.server import estimation
from fedaudit.audit import result_contract
from fedaudit.config import registry
from fedaudit.federation import adapters
from fedaudit.federation.folder import Federation
from fedaudit.federation.manifest import Round


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
    """Return what each method says of the federation's clients, by the method's name."""
    if not names:
        return {}  # and load no model
    with plaintext_rounds(
        federation,
        marks,
        pool,
        texts=texts,
        threshold=threshold,
        seed=seed,
        progress=progress,
    ) as given:
        methods: list[Attributor] = [
            registry.create("attribution", name, options.get(name)) for name in names
        ]
        return {
            method.name: result_contract.check_attribution(method.name, method.attribute(given))
            for method in methods
        }


def check(method: Attributor, federation: Federation) -> None:
    """Raise InputError where a method needs updates that the federation's folder does not have."""
    for one in federation.manifest.rounds[1:] if method.plaintext else ():
        if any(who not in one.clients for who in one.participants):
            raise InputError(
                f"{method.name} needs single clients' updates, which secure aggregation hides: "
                f"round {one.round} has none."
            )


@contextmanager
def plaintext_rounds(
    federation: Federation,
    marks: Sequence[Mark],
    pool: DetectionPool,
    *,
    texts: Sequence[str],
    threshold: float,
    seed: int,
    progress: Callable[[str], Progress],
) -> Iterator[AttributionContext]:
    """Give the rounds of a federation; adapters that a method writes are gone afterwards."""
    found = federation.manifest
    rule = found.aggregation
    aggregator: Aggregator = registry.create("aggregation", str(rule["name"]), rule.get("options"))
    with tempfile.TemporaryDirectory(prefix="fedaudit-") as place:
        yield AttributionContext(
            engine=engine_for(found.base.name, found.base.sha256, pool.machine),
            rounds=[_seen(federation, aggregator, one) for one in found.rounds[1:]],
            last=federation.path / found.rounds[-1].adapter,
            aggregator=aggregator,
            marks=detection.watermark_plugins(marks),
            measure=_measuring(federation, marks, pool),
            write=_writing(aggregator, Path(place)),
            texts=texts,
            threshold=threshold,
            seed=seed,
            progress=progress,
        )


def _seen(federation: Federation, aggregator: Aggregator, one: Round) -> RoundRecord:
    rounds = federation.manifest.rounds
    hidden = any(who not in one.clients for who in one.participants)

    def update(client: str) -> Update:
        start = adapters.read(
            federation.path / estimation.start_adapter(federation, aggregator, one)
        )
        return aggregator.difference(start, adapters.read(federation.path / one.clients[client]))

    return RoundRecord(
        round=one.round,
        start=federation.path / rounds[one.round - 1].adapter,
        participants=one.participants,
        updates=None if hidden else update,
    )


def _measuring(
    federation: Federation, marks: Sequence[Mark], pool: DetectionPool
) -> Callable[[Sequence[Path]], list[Scores]]:
    """Return a function that tests adapters, as many at a time as there are processes."""
    base = federation.manifest.base

    def tested(chosen: Sequence[Path]) -> list[Scores]:
        parts = [range(k, len(chosen), pool.count()) for k in range(pool.count())]
        jobs = [
            DetectionJob(
                key=key,
                base=base.name,
                sha256=base.sha256,
                adapters=tuple(chosen[at] for at in part),
                marks=tuple(marks),
            )
            for key, part in enumerate(parts)
            if part
        ]
        found: dict[int, Scores] = {}
        for key, scores in pool.run(jobs):
            found |= dict(zip(parts[key], scores, strict=True))
        return [found[at] for at in range(len(chosen))]

    return tested


def _writing(aggregator: Aggregator, place: Path) -> Callable[[Path, Update], Path]:
    written = 0

    def write(start: Path, update: Update) -> Path:
        nonlocal written
        written += 1
        moved = aggregator.moved(adapters.read(start), update)
        folder = place / f"{written:05d}"
        adapters.write(moved, adapters.resized_config(adapters.check(start), moved), folder)
        return folder

    return write
