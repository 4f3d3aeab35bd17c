"""One variant of a study: its federation, and what is measured on it."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from fedaudit.api.progress import Progress
from fedaudit.api.records import Measurement
from fedaudit.attribution import pipeline as attribution
from fedaudit.attribution.measurements import PROTOCOL
from fedaudit.attribution.owner.worker_pool import WorkerOptions
from fedaudit.attribution.request import AttributionRequest, resolve_request
from fedaudit.attribution.server.sum_plan import ProtocolConfig
from fedaudit.audit.input_files import InputReader
from fedaudit.config.options import build_settings
from fedaudit.config.profile import Variant
from fedaudit.reproduction.audits import audit_variant
from fedaudit.reproduction.instruments import measure_inference_and_exposure
from fedaudit.reproduction.memorization import measure_memorization
from fedaudit.reproduction.outcome_cache import (
    VariantOutcome,
    outcome_path,
    read_outcome,
    write_outcome,
)
from fedaudit.reproduction.pooling import average_rouge_over_clients, mean_over_clients, pool_counts
from fedaudit.reproduction.ratios import beyond_base_rows, gating_overheads, training_overheads
from fedaudit.simulation import runner as simulation
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.context import Listener

_log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from fedaudit.report.document import Report
    from fedaudit.report.redaction import Redactor


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
    folder: Path
    verdicts: Path
    redactor: "Redactor"


def run_variant(task: VariantTask, watch: Watch) -> VariantOutcome:
    """Train a variant's federation and attack it, or return the outcome of an earlier run."""
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
        done = simulation.simulate(config, folder, listener=watch.training, verdicts=task.verdicts)
    training = 0.0 if resumed else monotonic() - start_time
    reports = [
        *audit_variant(variant, folder, config, task.redactor, watch.bar),
        *_attribution_reports(variant, folder, config, watch),
        *measure_memorization(variant, folder, config, task.redactor, watch.bar),
        *measure_inference_and_exposure(variant, folder, config, task.redactor, watch.bar),
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
