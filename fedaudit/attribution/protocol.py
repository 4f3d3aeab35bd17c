"""FedAttr's protocol with all parties in one process: sums, tests of estimates, the decision."""

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedaudit.api.progress import Progress
from fedaudit.api.records import Measurement
from fedaudit.attribution import measurements, report, skewed_counts
from fedaudit.attribution.committed_decision import decide_committed
from fedaudit.attribution.decision import known_designs
from fedaudit.attribution.decision.calibration import simulated_federations
from fedaudit.attribution.decision.decision import Decision
from fedaudit.attribution.evidence import commitment
from fedaudit.attribution.evidence.commitment import CommitmentCheck
from fedaudit.attribution.owner import scoring
from fedaudit.attribution.owner.worker_pool import DetectionPool
from fedaudit.attribution.request import ResolvedRequest
from fedaudit.attribution.scores import Scores
from fedaudit.attribution.server import estimation, ledger, simulation_report
from fedaudit.attribution.server.sum_plan import SumPlan
from fedaudit.federation import commitments

Watcher = Callable[[str], Progress]
"""Gives the progress bar of a step, by its title."""


UNRECORDED_CAVEAT = (
    "the federation's folder is read-only, so its ledger does not record this test: commitments "
    "made after it will not count as late, and other keys may have been tried before it without a "
    "record"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolResult:
    """The outcome of FedAttr's protocol: its decision, and the rows and limits for the report."""

    decision: Decision
    status: CommitmentCheck | None
    rows: tuple[Measurement, ...]
    limits: tuple[str, ...]


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
        rows=(
            *committed.rows,
            *measurements.query_rows(plan),
            *known_designs.contribution_rows(scores, shares, committed.decision.marks),
            *_time_measurements(scores, sum_seconds, plan),
            *simulated_rows,
        ),
        limits=(
            *report.simulation_caveats(scores, simulated),
            *skewed_counts.caveats(scores),
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
    with _folder() as folder:
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


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fedaudit-") as folder:
        yield Path(folder)


def _time_measurements(scores: Scores, sum_seconds: float, plan: SumPlan) -> Iterator[Measurement]:
    """Yield the seconds of each step, and their ratio to the simulation's time if it is known."""
    training = simulation_report.duration(plan.federation)
    for step, seconds in (("sums", sum_seconds), ("scoring", scores.seconds)):
        yield measurements.row(measurements.PROTOCOL, "seconds", round(seconds, 2), {"step": step})
        if training:
            yield measurements.row(
                measurements.PROTOCOL, "overhead", seconds / training, {"step": step}
            )
