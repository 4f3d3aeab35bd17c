"""Attribution from a federation's folder or from scores, to a report."""

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedaudit.api.attribution import AttributionResult
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Measurement
from fedaudit.api.watermark import Mark
from fedaudit.attribution import copied_updates, measurements, plaintext, report
from fedaudit.attribution.committed_decision import decide_committed
from fedaudit.attribution.copies import Copies, copy_caveats
from fedaudit.attribution.decision import known_designs
from fedaudit.attribution.decision.calibration import simulated_federations
from fedaudit.attribution.decision.decision import Decision
from fedaudit.attribution.evidence import commitment
from fedaudit.attribution.evidence.commitment import CommitmentCheck
from fedaudit.attribution.owner import scoring
from fedaudit.attribution.owner.worker_pool import DetectionPool, WorkerOptions
from fedaudit.attribution.request import (
    AttributionRequest,
    ResolvedRequest,
    name_of,
    resolve_request,
    settings_of,
)
from fedaudit.attribution.scores import Scores, scored_copies
from fedaudit.attribution.server import estimation, ledger, simulation_report
from fedaudit.attribution.server.protocol_config import ProtocolConfig
from fedaudit.attribution.server.sum_plan import SumPlan
from fedaudit.data import corpus
from fedaudit.federation import adapters, commitments, watermark_keys
from fedaudit.federation.folder import (
    Federation,
    FederationReader,
    unchecked_caveats,
)
from fedaudit.metrics.attribution.stouffer import THRESHOLD
from fedaudit.report.document import Report, write
from fedaudit.system.files import make_folder

Watcher = Callable[[str], Progress]
"""Gives the progress bar of a step, by its title."""


UNRECORDED_CAVEAT = (
    "the federation's folder is read-only, so its ledger does not record this test: commitments "
    "made after it will not count as late, and other keys may have been tried before it without a "
    "record"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolResult:
    """The outcome of FedAttr's protocol, with rows and limits for the report; empty if not run."""

    decision: Decision | None = None
    status: CommitmentCheck | None = None
    copies: Copies | None = None
    """The copies in the rounds that were scored."""
    rows: tuple[Measurement, ...] = ()
    limits: tuple[str, ...] = ()


def run_protocol(
    plan: SumPlan,
    resolved: ResolvedRequest,
    truth: Mapping[str, str],
    pool: DetectionPool,
    watch: Watcher,
) -> ProtocolResult:
    """Ask for sums, test the estimates, decide, and simulate federations like this one."""
    request = resolved.request
    unrecorded = _note_test(plan, resolved)
    scores, sum_seconds = _score_estimates(plan, resolved, pool, watch)
    of_rounds = {number: design.combinations for number, design in plan.designs.items()}
    shares = known_designs.estimate_shares(scores, of_rounds, plan.weights)
    committed = decide_committed(
        scores,
        resolved.commitments,
        noted=_noted_commitments(resolved, scores.run),
        threshold=request.threshold,
        alpha=request.alpha,
        shares=shares,
        truth=truth,
    )
    simulated = simulated_federations(scores, request.federations)
    simulated_rows = report.simulated_rows(
        scores,
        simulated,
        threshold=request.threshold,
        alpha=request.alpha,
        sets_known=True,
        unopened=committed.unopened,
        progress=watch("simulating federations"),
    )
    return ProtocolResult(
        decision=committed.decision,
        status=committed.status,
        copies=scored_copies(scores),
        rows=(
            *committed.rows,
            *measurements.query_rows(plan),
            *known_designs.contribution_rows(scores, shares, committed.decision.marks),
            *_time_measurements(scores, sum_seconds, plan),
            *simulated_rows,
        ),
        limits=(
            *report.simulation_caveats(scores, simulated),
            *report.skewed_count_caveats(scores),
            *report.lost_mark_caveats(scores.marks.values()),
            *report.protocol_limits(committed.decision, plan, sets_known=True),
            *commitment.key_caveats(scores, committed.status, opened=True),
            *unrecorded,
        ),
    )


def _note_test(plan: SumPlan, resolved: ResolvedRequest) -> list[str]:
    """Note in the ledger that sums were asked for, so that later commitments count as late.

    Returns a limit if the federation's folder is read-only, such as an expert's copy of it.
    """
    if not ledger.is_writable(resolved.federation.path):
        return [UNRECORDED_CAVEAT]
    facts = {
        "designs": [ledger.design_of(plan, number) for number in sorted(plan.designs)],
        "marks": commitment.commitment_digests(resolved.marks),
        "alpha": resolved.request.alpha,
        "threshold": resolved.request.threshold,
    }
    ledger.add_note(
        resolved.federation.path,
        ledger.TESTED,
        estimation.identity(resolved.federation),
        hashlib.sha256(commitments.canonical(facts)).hexdigest(),
        sorted(plan.designs),
        resolved.commitments,
    )
    return []


def _noted_commitments(resolved: ResolvedRequest, run: str) -> str:
    """Return the SHA-256 in the ledger of the commitments in the federation's folder.

    The result is empty if no commitments are used or another file's, which the ledger does not
    cover.
    """
    path, folder = resolved.commitments, resolved.federation.path
    if path is None or path.resolve() != (folder / commitments.NAME).resolve():
        return ""
    return ledger.noted_commitments(folder, run)


def _score_estimates(
    plan: SumPlan, resolved: ResolvedRequest, pool: DetectionPool, watch: Watcher
) -> tuple[Scores, float]:
    """Run the server's and the owner's step in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="fedaudit-") as name:
        folder = Path(name)
        estimates, seconds = estimation.estimate(
            plan,
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


def _time_measurements(scores: Scores, sum_seconds: float, plan: SumPlan) -> Iterator[Measurement]:
    """Yield the seconds of each step, and their ratio to the simulation's time if it is known."""
    training = simulation_report.duration(plan.federation)
    for step, seconds in (("sums", sum_seconds), ("scoring", scores.seconds)):
        yield measurements.row(measurements.PROTOCOL, "seconds", round(seconds, 2), {"step": step})
        if training:
            yield measurements.row(
                measurements.PROTOCOL, "overhead", seconds / training, {"step": step}
            )


MAX_CLEAN_TEXTS = 64
"""The most held-out texts that are given to a method that needs clean texts."""


def run(resolved: ResolvedRequest, watch: Watcher = lambda title: no_progress) -> Report:
    """Return the report of an attribution in a federation's folder, all parties in this process."""
    start_time = datetime.now(UTC)
    request = resolved.request
    truth = true_marks(resolved.federation, resolved.marks)
    with DetectionPool(request.worker_options) as pool:
        protocol = ProtocolResult()
        if plan := resolved.plan:
            protocol = run_protocol(plan, resolved, truth, pool, watch)
        results = _run_plaintext_methods(resolved, pool, watch)
    copies = protocol.copies or copied_updates.find_copies(resolved.federation)
    return report.report(
        command="attribute",
        config=settings_of(resolved),
        start_time=start_time,
        base=resolved.federation.manifest.base.name,
        base_sha256=resolved.federation.manifest.base.sha256 or None,
        data=[
            report.file_row(resolved.path, len(resolved.marks), "mark"),
            *report.commitments_row(protocol.status),
        ],
        measurements=[
            *protocol.rows,
            *_plaintext_rows(results, resolved, truth),
        ],
        decision=protocol.decision,
        limits=[
            *unchecked_caveats(resolved.federation),
            *resolved.caveats,
            *copy_caveats(copies),
            *protocol.limits,
            *(limit for result in results.values() for limit in result.limits),
        ],
        seeds={"seed": request.seed, **({"design": plan.seed} if plan else {})},
        device=request.worker_options.device,
        queries=plan.queries if plan else None,
        models=_round_models(resolved),
    )


def _round_models(resolved: ResolvedRequest) -> dict[Path, str]:
    """Return the fingerprint of the adapters of every round that was attributed, by its folder."""
    federation, plan = resolved.federation, resolved.plan
    folders = [
        (federation.path / entry.adapter).parent
        for entry in federation.manifest.rounds
        if entry.round > 0 and (plan is None or entry.round in plan.designs)
    ]
    return {folder: adapters.fingerprint_below(folder) for folder in folders}


def attribute(
    rounds: str | Path,
    *,
    watermark: str | Path | None = None,
    commitments: str | Path | None = None,
    methods: Sequence[str] = (measurements.PROTOCOL,),
    protocol: ProtocolConfig | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    threshold: float = THRESHOLD,
    alpha: float = 0.01,
    federations: int | None = None,
    seed: int = 0,
    workers: WorkerOptions | None = None,
    out: str | Path | None = None,
    watch: Watcher = lambda title: no_progress,
) -> Report:
    """Name the clients whose updates carry a watermark, as `fedaudit attribute`.

    Args:
        rounds: The federation's folder.
        watermark: The owner's file of marks; a simulation has its own.
        commitments: The commitments that the owner published before training.
        methods: The protocol "fed_attr", or plugins of the kind "attribution", by name.
        protocol: The settings of the protocol's sums.
        options: Options of methods and of watermarks, by name.
        threshold: The score from which on a client is flagged.
        alpha: The share of innocent clients that may be flagged.
        federations: How many simulated federations the report's error rates come from.
        seed: The seed of everything random.
        workers: The device, the dtype and the number of processes.
        out: The report's folder; the default is one below `runs/attribute/`.
        watch: Called with a title, returns the callback for the progress of that part.

    Returns:
        The report, which is also written into its folder.

    Raises:
        UsageError: For methods and options that do not exist, and without a file of marks.
        InputError: For files that cannot be read or do not go together.
    """
    request = AttributionRequest(
        rounds=Path(rounds),
        watermark=Path(watermark) if watermark else None,
        commitments=Path(commitments) if commitments else None,
        methods=tuple(methods),
        protocol_config=protocol or ProtocolConfig(),
        options=options or {},
        threshold=threshold,
        alpha=alpha,
        federations=federations,
        seed=seed,
        worker_options=workers or WorkerOptions(),
    )
    resolved = resolve_request(request, FederationReader())
    done = run(resolved, watch)
    folder = Path(out) if out else Path("runs/attribute") / name_of(resolved)
    make_folder(folder)
    write(done, folder / "report.json")
    return done


def _run_plaintext_methods(
    resolved: ResolvedRequest, pool: DetectionPool, watch: Watcher
) -> Mapping[str, AttributionResult]:
    """Run the methods that need plaintext updates, and return their results by name."""
    request = resolved.request
    methods = [name for name in request.methods if name != measurements.PROTOCOL]
    return plaintext.attribute(
        methods,
        resolved.federation,
        resolved.marks,
        pool,
        options=request.options,
        texts=_clean(resolved.federation) if methods else (),
        threshold=request.threshold,
        seed=request.seed,
        progress=watch,
    )


def _plaintext_rows(
    results: Mapping[str, AttributionResult],
    resolved: ResolvedRequest,
    truth: Mapping[str, str],
) -> Iterator[Measurement]:
    """Yield the rows of the methods that need plaintext updates."""
    threshold = resolved.request.threshold
    present = participants(resolved.federation)
    for name, result in results.items():
        yield from measurements.suspicion_rows(name, result, threshold)
        if result.clients:
            flagged = measurements.flagged_clients(result.clients)
            yield from measurements.error_rates(name, flagged, present, truth)


def true_marks(federation: Federation, tested: Sequence[Mark]) -> dict[str, str]:
    """Return, by client, the id of the tested mark that it trained on; "" if it trained on none.

    The truth is known only for a simulation; for any other federation the result has no clients.
    Marks are the same if their keys are, whatever their ids; ids are compared only where the
    simulation's own file of marks is gone.
    """
    manifest = federation.manifest
    if not manifest.config:
        return {}
    path = federation.path / watermark_keys.OWNER
    planted = watermark_keys.read(path) if path.is_file() else tested
    same = {
        mark.id: tested_mark.id
        for mark in planted
        for tested_mark in tested
        if (mark.name, mark.secret) == (tested_mark.name, tested_mark.secret)
    }
    return {client.id: same.get(client.watermark, "") for client in manifest.clients}


def participants(federation: Federation) -> list[str]:
    """Return the clients that took part in at least one round."""
    took = {client for r in federation.manifest.rounds for client in r.participants}
    return [c.id for c in federation.manifest.clients if c.id in took]


def _clean(federation: Federation) -> list[str]:
    path = federation.path / "data/held_out.jsonl"
    if not path.is_file():
        return []
    return [d.text for d in corpus.read(path, federation.template)][:MAX_CLEAN_TEXTS]
