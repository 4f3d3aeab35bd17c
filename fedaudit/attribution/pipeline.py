"""Attribution from a federation's folder or from scores, to a report."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import InputError, UsageError, unknown_name_error
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Measurement
from fedaudit.api.watermark import Mark
from fedaudit.attribution import measurements, plaintext, report
from fedaudit.attribution.committed_decision import decide_committed
from fedaudit.attribution.decision import known_designs
from fedaudit.attribution.decision.calibration import simulated_federations
from fedaudit.attribution.decision.decision import check_limits
from fedaudit.attribution.evidence import commitment
from fedaudit.attribution.owner import scoring
from fedaudit.attribution.owner.worker_pool import DetectionPool, Machine
from fedaudit.attribution.scores import Scores
from fedaudit.attribution.server import estimation, query_plan
from fedaudit.attribution.server.query_plan import ProtocolConfig, SumPlan
from fedaudit.audit.fingerprint import run_id
from fedaudit.config import registry
from fedaudit.data import corpus
from fedaudit.federation import commitments
from fedaudit.federation import watermark_keys as marks_file
from fedaudit.federation.folder import (
    Federation,
    check_consecutive,
    open_federation,
    unchecked_caveats,
)
from fedaudit.metrics.attribution.stouffer import THRESHOLD
from fedaudit.system.files import existing_path, sha256

if TYPE_CHECKING:
    from fedaudit.report.document import Report

MAX_CLEAN_TEXTS = 64
"""At most so many held-out texts are given to a method that needs clean ones."""

Watcher = Callable[[str], Progress]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionRequest:
    """What `attribute --rounds` was asked to do."""

    rounds: Path
    watermark: Path | None = None
    commitments: Path | None = None
    """The published commitments; without it, those in the federation's folder, if any."""
    methods: tuple[str, ...] = (measurements.PROTOCOL,)
    protocol_config: ProtocolConfig = field(default_factory=ProtocolConfig)
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options of the methods and watermarks, by name; a mark keeps the others that it has."""
    threshold: float = THRESHOLD
    alpha: float = 0.01
    seed: int = 0
    federations: int | None = None
    """Simulated federations of each strength, for the report; as many as take some seconds unless
    they are given."""
    machine: Machine = field(default_factory=Machine)


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """What a request is about, after everything was found."""

    federation: Federation
    path: Path
    """The file of marks."""
    marks: Sequence[Mark]
    commitments: Path | None = None
    """The published commitments that marks are compared with; None where there are none."""


def resolve_request(request: AttributionRequest) -> ResolvedRequest:
    """Return what is attributed, after every check that needs no model.

    Raises UsageError for unknown methods or a missing watermark file, InputError for broken files.
    """
    check_limits(request.threshold, request.alpha)
    offered = (measurements.PROTOCOL, *registry.plugins("attribution"))
    for name in request.methods:
        if name not in offered:
            raise unknown_name_error("attribution", name, offered)
    federation = open_federation(existing_path(request.rounds, "federation"))
    check_consecutive(federation)
    for name in request.methods:
        if name != measurements.PROTOCOL:
            plaintext.check(
                registry.create("attribution", name, request.options.get(name)), federation
            )
    path = request.watermark or federation.path / marks_file.OWNER
    if request.watermark is None and not path.is_file():
        raise UsageError(
            f"{federation.path} holds no watermark file: name the owner's with --watermark."
        )
    marks = [mark.with_options(request.options) for mark in marks_file.read(path)]
    for mark in marks:
        registry.create("watermark", mark.name, mark.options)
    if measurements.PROTOCOL in request.methods:
        query_plan.plan(federation, request.protocol_config)
    default_path = federation.path / commitments.NAME
    chosen = request.commitments or (default_path if default_path.exists() else None)
    if request.commitments:
        commitment.check(request.commitments, [mark.id for mark in marks])
    elif chosen:
        commitments.read(chosen)
    return ResolvedRequest(federation, path, marks, chosen)


def run(request: AttributionRequest, watch: Watcher = lambda title: no_progress) -> "Report":
    """Attribute the marks of a federation, all parts of which are available."""
    start_time = datetime.now(UTC)
    resolved = resolve_request(request)
    truth = truth_of(resolved.federation)
    measured: list[Measurement] = []
    limits = unchecked_caveats(resolved.federation)
    decision, planned, status = None, None, None
    with DetectionPool(request.machine) as pool:
        if measurements.PROTOCOL in request.methods:
            planned = query_plan.plan(resolved.federation, request.protocol_config)
            scores, sum_seconds = _protocol(planned, resolved, pool, watch)
            of_rounds = {number: design.combinations for number, design in planned.designs.items()}
            shares = known_designs.estimate_shares(scores, of_rounds, planned.weights)
            committed = decide_committed(
                scores,
                resolved.commitments,
                threshold=request.threshold,
                alpha=request.alpha,
                shares=shares,
                truth=truth,
            )
            decision, status = committed.decision, committed.status
            measured += [*committed.rows, *measurements.query_rows(planned)]
            measured += known_designs.contribution_rows(scores, shares)
            measured += _time_measurements(scores, sum_seconds, planned)
            simulated = simulated_federations(scores, request.federations)
            measured += report.simulated_rows(
                scores,
                simulated,
                threshold=request.threshold,
                alpha=request.alpha,
                sets_known=True,
                progress=watch("simulating federations"),
            )
            limits += report.simulation_caveats(scores, simulated)
            limits += report.protocol_limits(decision, planned, sets_known=True)
            limits += commitment.key_caveats(scores, status, opened=True)
        plaintext_methods = [name for name in request.methods if name != measurements.PROTOCOL]
        results = plaintext.attribute(
            plaintext_methods,
            resolved.federation,
            resolved.marks,
            pool,
            options=request.options,
            texts=_clean(resolved.federation) if plaintext_methods else (),
            threshold=request.threshold,
            seed=request.seed,
            progress=watch,
        )
    present = participants(resolved.federation)
    for name, result in results.items():
        measured += measurements.suspicion_rows(name, result, request.threshold)
        if result.clients:
            measured += measurements.error_rates(
                name, measurements.flagged_clients(result.clients), present, truth
            )
        limits += [f"{name}: {limit}" for limit in result.limits]
    return report.report(
        command="attribute",
        config=_settings(request, resolved),
        start_time=start_time,
        base=resolved.federation.manifest.base.name,
        base_sha256=resolved.federation.manifest.base.sha256 or None,
        data=[report.file_row(resolved.path, len(resolved.marks)), *report.commitments_row(status)],
        measurements=measured,
        decision=decision,
        limits=limits,
        seeds={"seed": request.seed, **({"design": planned.seed} if planned else {})},
        device=request.machine.device,
        queries=planned.queries if planned else None,
    )


def _protocol(
    planned: SumPlan, resolved: ResolvedRequest, pool: DetectionPool, watch: Watcher
) -> tuple[Scores, float]:
    """Run the server's and the owner's step in a temporary folder."""
    with _folder() as folder:
        estimates, seconds = estimation.estimate(
            planned,
            folder / "estimates",
            folder / "log.json",
            recorded=False,
            progress=watch("asking for sums"),
        )
        scores = scoring.score(
            folder / "estimates",
            estimates,
            resolved.marks,
            pool,
            progress=watch("testing estimates"),
        )
    return scores, seconds


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fedaudit-") as folder:
        yield Path(folder)


def _time_measurements(
    scores: Scores, sum_seconds: float, planned: SumPlan
) -> Iterator[Measurement]:
    """Yield the seconds of each step, and their share of the simulation's where that is known."""
    training = _simulation_seconds(planned.federation)
    for step, seconds in (("sums", sum_seconds), ("scoring", scores.seconds)):
        yield measurements.row(measurements.PROTOCOL, "seconds", round(seconds, 2), {"step": step})
        if training:
            yield measurements.row(
                measurements.PROTOCOL, "overhead", seconds / training, {"step": step}
            )


def _simulation_seconds(federation: Federation) -> float:
    """Return the seconds that a simulation took, by its report; 0 where that is not known."""
    from fedaudit.report.document import read

    path = federation.path / "report.json"
    if not path.is_file():
        return 0.0
    try:
        simulation_report = read(path)
    except InputError:  # somebody else's report, or a broken one, says nothing of it
        return 0.0
    is_complete = (
        simulation_report["run"]["command"] == "simulate"
        and simulation_report["run"]["resumed_from"] is None
    )
    return float(simulation_report["budget"]["seconds"] or 0.0) if is_complete else 0.0


def truth_of(federation: Federation) -> dict[str, str]:
    """Return the mark of each client, empty for none; no client at all where it is not known."""
    manifest = federation.manifest
    return {c.id: c.watermark for c in manifest.clients} if manifest.config else {}


def participants(federation: Federation) -> list[str]:
    """Return the clients that took part in some round."""
    took = {client for r in federation.manifest.rounds for client in r.participants}
    return [c.id for c in federation.manifest.clients if c.id in took]


def _clean(federation: Federation) -> list[str]:
    path = federation.path / "data/held_out.jsonl"
    if not path.is_file():
        return []
    return [d.text for d in corpus.read(path, federation.template)][:MAX_CLEAN_TEXTS]


def name_of(request: AttributionRequest, resolved: ResolvedRequest) -> str:
    """Return the run's id: the fingerprint of its settings, its marks and its federation."""
    return run_id({**_settings(request, resolved), "files": [sha256(resolved.path)]})


def _settings(request: AttributionRequest, resolved: ResolvedRequest) -> dict[str, Any]:
    return {
        "rounds": str(request.rounds),
        "run": estimation.identity(resolved.federation),
        "watermark": str(resolved.path),
        "commitments": str(resolved.commitments or ""),
        "methods": list(request.methods),
        "options": {name: dict(options) for name, options in request.options.items()},
        "wish": asdict(request.protocol_config),
        "threshold": request.threshold,
        "alpha": request.alpha,
        "seed": request.seed,
        "federations": request.federations,
    }
