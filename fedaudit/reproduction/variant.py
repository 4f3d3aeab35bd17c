"""One variant of a study: its federation, and what is measured on it."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from fedaudit.api.errors import TooShortError
from fedaudit.api.progress import Progress
from fedaudit.api.records import Measurement
from fedaudit.attribution import pipeline as attribution
from fedaudit.attribution.measurements import PROTOCOL
from fedaudit.attribution.owner.worker_pool import WorkerOptions
from fedaudit.attribution.request import AttributionRequest, resolve_request
from fedaudit.attribution.server.protocol_config import ProtocolConfig
from fedaudit.audit.clients import list_clients
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.memorization import rows
from fedaudit.audit.request import MemorizationRequest, Protocol
from fedaudit.audit.session import run_audit
from fedaudit.cache.engine import CachingEngine
from fedaudit.config.options import build_settings
from fedaudit.config.profile import Variant
from fedaudit.engine import environment
from fedaudit.reproduction.answers import open_answers
from fedaudit.reproduction.audits import RunAudit, audit_variant, is_deployed
from fedaudit.reproduction.contaminated_base import write_contaminated_base
from fedaudit.reproduction.instruments import measure_inference_and_exposure
from fedaudit.reproduction.outcome_cache import (
    VariantOutcome,
    outcome_path,
    read_outcome,
    write_outcome,
)
from fedaudit.reproduction.pooling import average_rouge_over_clients, mean_over_clients, pool_counts
from fedaudit.simulation import runner as simulation
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.context import Listener

if TYPE_CHECKING:
    from fedaudit.report.document import Report
    from fedaudit.report.redaction import Redactor

_log = logging.getLogger(__name__)

GATE_TRAINING = "gate training"
"""The stage of the losses of a gate's training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """The listeners that progress is reported to."""

    variant: Callable[[str, int, int], None]
    training: Listener
    bar: Callable[[str], Progress]


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantTask:
    """A variant to run: its federation, trained in `folder` unless it is there."""

    variant: Variant
    config: Simulation
    clean_base: str = ""
    """The base that `config.base` is made of where the variant's is contaminated."""
    folder: Path
    verdicts: Path
    redactor: "Redactor"


def run_variant(task: VariantTask, watch: Watch) -> VariantOutcome:
    """Train a variant's federation and attack it, or return the outcome of an earlier run."""
    if share := task.variant.contaminated:
        clean = replace(task.config, base=task.clean_base)
        write_contaminated_base(clean, share, Path(task.config.base))
    cache_key = (task.variant, task.config, task.folder, task.redactor)
    if task.folder.exists() and (cached_outcome := read_outcome(outcome_path(*cache_key))):
        _log.info("variant %s: the outcome of an earlier run is used", task.variant.name)
        return cached_outcome
    outcome = _run_task(task, watch)
    write_outcome(outcome, outcome_path(*cache_key))  # of the federation as it stands now
    return outcome


def _run_task(task: VariantTask, watch: Watch) -> VariantOutcome:
    variant, config, folder = task.variant, task.config, task.folder
    resumed, start_time = folder.exists(), monotonic()
    with simulation.lock_run(folder):
        done = simulation.simulate(
            config,
            folder,
            listener=watch.training,
            verdicts=task.verdicts,
            evaluated_round=variant.round,
        )
    training = 0.0 if resumed else monotonic() - start_time
    with open_answers(folder, config) as answers:
        # Audits by copies ask the same prompts and look for other strings.
        share = partial(CachingEngine, cache=answers, whole=variant.copies)
        run = partial(run_audit, redactor=task.redactor, watch=watch.bar, share=share)
        reports = [
            *audit_variant(variant, folder, config, run),
            *_attribution_reports(variant, folder, config, watch),
            *measure_memorization(variant, folder, config, run),
            *measure_inference_and_exposure(variant, folder, config, run),
        ]
    rows = [row for report in reports for row in report.measurements]
    rows = [
        *done.measurements,
        *rows,
        *training_overheads(rows, training),
        *average_rouge_over_clients(rows),
    ]
    rows += [*secure_gate_rows(rows), *beyond_base_rows(rows)]
    # One audit for each client of many would say the same over and over.
    caveats = () if variant.clients else (limit for report in reports for limit in report.limits)
    return VariantOutcome(
        measurements=tuple(
            replace(row, scope={**row.scope, "variant": variant.name})
            for row in (*rows, *pool_counts(rows))
        ),
        findings=tuple(
            replace(f, id=f"{variant.name}-{f.id}", measurement=f"{f.measurement}, {variant.name}")
            for report in reports
            for f in report.findings
        ),
        data=tuple(row for report in reports for row in report.data),
        limits=(*done.limits, *caveats),
    )


def secure_gate_rows(rows: Sequence[Measurement]) -> list[Measurement]:
    """Return the overhead of each client's gate, and the means of it and of its losses."""
    overheads = gating_overheads(rows)
    losses = [row for row in rows if row.scope.get("stage") == GATE_TRAINING]
    return [*overheads, *mean_over_clients([*overheads, *losses])]


def _attribution_reports(
    variant: Variant, folder: Path, config: Simulation, watch: Watch
) -> Iterator["Report"]:
    """Yield the report of a variant's attribution."""
    if not variant.attribution:
        return
    watermark, _ = config.watermark_plugin()
    used = {PROTOCOL, *variant.attribution, watermark}  # other options are for its attacks
    options = {name: dict(table) for name, table in variant.options.items() if name in used}
    protocol_config = build_settings(
        ProtocolConfig, options.pop(PROTOCOL, {}), f"variant {variant.name} {PROTOCOL}"
    )
    limit = (
        config.queries.limit if protocol_config.limit is None else protocol_config.limit
    )  # 1 means none
    request = AttributionRequest(
        rounds=folder,
        methods=variant.attribution,
        protocol_config=replace(protocol_config, seed=config.seed, limit=limit),
        options=options,
        seed=config.seed,
        federations=0,
        worker_options=WorkerOptions(
            device=config.device, dtype=config.dtype, workers=config.workers
        ),
    )
    yield attribution.run(resolve_request(request, InputReader()), watch.bar)


def measure_memorization(
    variant: Variant, folder: Path, config: Simulation, run: RunAudit
) -> Iterator["Report"]:
    """Yield the report of a variant's memorization, if it has a `memorize` table.

    If no text is long enough, the report says so and has null instead of the measurements. If a
    defence is deployed, the global adapter is measured, which every client has.
    """
    if variant.memorize is None:
        return
    central = folder / f"central/{config.rounds:03d}"
    request = MemorizationRequest(
        clients=list_clients(folder, (), InputReader()),
        protocol=build_settings(Protocol, variant.memorize, f"variant {variant.name} memorize"),
        options=variant.options,
        target=str(folder),
        adapter=str(central) if variant.model == "central" else None,
        round=_round(variant, folder, config),
        seed=config.seed,
        device=config.device,
        dtype=config.dtype,
        workers=config.workers,
    )
    start_time = datetime.now(UTC)
    try:
        yield run(request).report
    except TooShortError as error:
        yield _unmeasured_report(variant.name, request, start_time, str(error))


def _round(variant: Variant, folder: Path, config: Simulation) -> int | None:
    if variant.round >= 0:
        return variant.round
    return config.rounds if is_deployed(variant, folder) else None


def _unmeasured_report(
    name: str, request: MemorizationRequest, start_time: datetime, why: str
) -> "Report":
    from fedaudit.report.run_header import build_report

    return build_report(
        command=request.command,
        name=name,
        config=request.protocol.scope(),
        started=start_time,
        base=request.target or "",
        environment=environment.describe(request.device),
        data=[],
        seeds={request.purpose: request.seed},
        measurements=rows.missing_rows(request.protocol),
        limits=[f"Variant {name!r} was not measured. {why}"],
    )


GATING, ANSWERING = "gating", "adapter"
"""The stages of a gated request: the gate chooses an adapter, which then answers."""
BEYOND_BASE = "beyond_base"


def training_overheads(rows: Sequence[Measurement], training: float) -> list[Measurement]:
    """Return each step's seconds as a share of the `training` seconds of its federation.

    Returns nothing if the federation existed already (0 seconds) or the rows have it already.
    """
    if not training or any(row.metric == "overhead" for row in rows):
        return []
    return [
        replace(row, metric="overhead", value=row.value / training)
        for row in rows
        if row.metric == "seconds" and "step" in row.scope and row.value is not None
    ]


def gating_overheads(rows: Sequence[Measurement]) -> list[Measurement]:
    """Return each client's seconds of a gating pass as a share of the answer's.

    Both times are of single requests, one after the other in one process, so other load on the
    machine affects their ratio less than either time.
    """
    seconds = {
        (row.scope.get("client"), row.scope.get("stage")): row
        for row in rows
        if row.metric == "seconds" and row.value
    }
    return [
        replace(
            row,
            metric="overhead",
            value=(row.value or 0.0) / answer.value,
            scope={"client": client, "stage": stage},
        )
        for (client, stage), row in seconds.items()
        if stage == GATING and (answer := seconds.get((client, ANSWERING))) and answer.value
    ]


def beyond_base_rows(rows: Sequence[Measurement]) -> list[Measurement]:
    r"""Return which share of what the tuned model gives the base does not give, too.

    A row for each coverage of a tuned model, over the targets that it covers: F\B of F (FedPII,
    table 5), with Wilson's interval. F\B is a part of F, so their two intervals say little of
    their ratio. Nothing was covered: no number.
    """
    without_base = {
        _scope_key(row): row
        for row in rows
        if row.metric == "coverage" and row.scope.get("source") == "tuned-not-base"
    }
    found = []
    for row in rows:
        if row.metric != "coverage" or row.hits is None or "budget" in row.scope:
            continue
        if row.scope.get("source") == "tuned":
            left = without_base.get(_scope_key(row))
            if left is not None and left.hits is not None:
                found.append(_share(row, left.hits, row.hits))
    return found


def _share(row: Measurement, hits: int, n: int) -> Measurement:
    scope = {key: value for key, value in row.scope.items() if key != "source"}
    if not n:
        return Measurement(
            kind=row.kind, plugin=row.plugin, metric=BEYOND_BASE, value=None, scope=scope,
            reason="the tuned model gave none of the targets",
        )  # fmt: skip
    return Measurement.rate(
        hits, n, kind=row.kind, plugin=row.plugin, metric=BEYOND_BASE, scope=scope
    )


def _scope_key(row: Measurement) -> tuple[object, ...]:
    scope = sorted((key, str(value)) for key, value in row.scope.items() if key != "source")
    return row.kind, row.plugin, *scope
