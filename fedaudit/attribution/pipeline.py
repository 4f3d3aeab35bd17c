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
from fedaudit.attribution.decision import known_designs
from fedaudit.attribution.decision.decision import check_limits, decide
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

CLEAN = 64
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
    wish: ProtocolConfig = field(default_factory=ProtocolConfig)
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options of the methods and watermarks, by name; a mark keeps the others that it has."""
    threshold: float = THRESHOLD
    alpha: float = 0.01
    seed: int = 0
    machine: Machine = field(default_factory=Machine)


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """What a request is about, once everything was found to be there."""

    federation: Federation
    path: Path
    """The file of marks."""
    marks: Sequence[Mark]
    commitments: Path | None = None
    """The published commitments that marks are held against; None where there are none."""


def check(request: AttributionRequest) -> ResolvedRequest:
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
        query_plan.plan(federation, request.wish)
    own = federation.path / commitments.NAME
    chosen = request.commitments or (own if own.exists() else None)
    if request.commitments:
        commitment.check(request.commitments, [mark.id for mark in marks])
    elif chosen:
        commitments.read(chosen)
    return ResolvedRequest(federation, path, marks, chosen)


def run(request: AttributionRequest, watch: Watcher = lambda title: no_progress) -> "Report":
    """Attribute the marks of a federation whose every part one holds."""
    started = datetime.now(UTC)
    known = check(request)
    truth = truth_of(known.federation)
    measured: list[Measurement] = []
    limits = unchecked_caveats(known.federation)
    decision, planned, held = None, None, None
    with DetectionPool(request.machine) as pool:
        if measurements.PROTOCOL in request.methods:
            planned = query_plan.plan(known.federation, request.wish)
            scores, asked = _protocol(planned, known, pool, watch)
            held = (
                commitment.check_commitments(scores, known.commitments)
                if known.commitments
                else None
            )
            first = decide(scores, threshold=request.threshold, alpha=request.alpha)
            decision = commitment.withhold_uncommitted(first, held, request.alpha)
            own = report.decision_rows(decision, scores, request.threshold, truth)
            measured += [
                *commitment.drop_threshold(own, first, decision, held),
                *commitment.commitment_counts(scores, held),
                *measurements.query_rows(planned),
            ]
            of_rounds = {number: one.combinations for number, one in planned.designs.items()}
            measured += known_designs.contribution_rows(scores, of_rounds, planned.weights)
            measured += _spent(scores, asked, planned)
            limits += report.protocol_limits(decision, planned)
            limits += commitment.key_caveats(scores, held, opened=True)
        others = [name for name in request.methods if name != measurements.PROTOCOL]
        found = plaintext.attribute(
            others,
            known.federation,
            known.marks,
            pool,
            options=request.options,
            texts=_clean(known.federation) if others else (),
            threshold=request.threshold,
            seed=request.seed,
            progress=watch,
        )
    present = participants(known.federation)
    for name, one in found.items():
        measured += measurements.suspicion_rows(name, one, request.threshold)
        if one.clients:
            measured += measurements.error_rates(
                name, measurements.flagged_clients(one.clients), present, truth
            )
        limits += [f"{name}: {limit}" for limit in one.limits]
    return report.report(
        command="attribute",
        config=_settings(request, known),
        started=started,
        base=known.federation.manifest.base.name,
        base_sha256=known.federation.manifest.base.sha256 or None,
        data=[report.file_row(known.path, len(known.marks)), *report.commitments_row(held)],
        measurements=measured,
        decision=decision,
        limits=limits,
        seeds={"seed": request.seed, **({"design": planned.seed} if planned else {})},
        device=request.machine.device,
        queries=planned.queries if planned else None,
    )


def _protocol(
    planned: SumPlan, known: ResolvedRequest, pool: DetectionPool, watch: Watcher
) -> tuple[Scores, float]:
    """Run the server's and the owner's step in a folder that is gone afterwards."""
    with _folder() as place:
        found, seconds = estimation.estimate(
            planned,
            place / "estimates",
            place / "log.json",
            recorded=False,
            progress=watch("asking for sums"),
        )
        scores = scoring.score(
            place / "estimates", found, known.marks, pool, progress=watch("testing estimates")
        )
    return scores, seconds


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fedaudit-") as place:
        yield Path(place)


def _spent(scores: Scores, asked: float, planned: SumPlan) -> Iterator[Measurement]:
    """Yield the seconds of each step, and their share of the simulation's where that is known."""
    training = _simulated(planned.federation)
    for step, seconds in (("sums", asked), ("scoring", scores.seconds)):
        yield measurements.row(measurements.PROTOCOL, "seconds", round(seconds, 2), {"step": step})
        if training:
            yield measurements.row(
                measurements.PROTOCOL, "overhead", seconds / training, {"step": step}
            )


def _simulated(federation: Federation) -> float:
    """Return the seconds that a simulation took, by its report; 0 where nobody says it."""
    from fedaudit.report.document import read

    path = federation.path / "report.json"
    if not path.is_file():
        return 0.0
    try:
        found = read(path)
    except InputError:  # somebody else's report, or a broken one, says nothing of it
        return 0.0
    whole = found["run"]["command"] == "simulate" and found["run"]["resumed_from"] is None
    return float(found["budget"]["seconds"] or 0.0) if whole else 0.0


def truth_of(federation: Federation) -> dict[str, str]:
    """Return the mark of each client, empty for none; nothing where nobody knows."""
    found = federation.manifest
    return {one.id: one.watermark for one in found.clients} if found.config else {}


def participants(federation: Federation) -> list[str]:
    """Return the clients that took part in some round."""
    took = {who for one in federation.manifest.rounds for who in one.participants}
    return [one.id for one in federation.manifest.clients if one.id in took]


def _clean(federation: Federation) -> list[str]:
    path = federation.path / "data/held_out.jsonl"
    if not path.is_file():
        return []
    return [one.text for one in corpus.read(path, federation.template)][:CLEAN]


def name_of(request: AttributionRequest, known: ResolvedRequest) -> str:
    """Return the run's id: the fingerprint of its settings, its marks and its federation."""
    return run_id({**_settings(request, known), "files": [sha256(known.path)]})


def _settings(request: AttributionRequest, known: ResolvedRequest) -> dict[str, Any]:
    return {
        "rounds": str(request.rounds),
        "run": estimation.identity(known.federation),
        "watermark": str(known.path),
        "commitments": str(known.commitments or ""),
        "methods": list(request.methods),
        "options": {name: dict(own) for name, own in request.options.items()},
        "wish": asdict(request.wish),
        "threshold": request.threshold,
        "alpha": request.alpha,
        "seed": request.seed,
    }
