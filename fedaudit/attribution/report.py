"""An attribution as a report: rows, limits, verdict."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from math import isclose, isfinite, sqrt
from pathlib import Path
from typing import Any

from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Measurement
from fedaudit.api.watermark import Score, Watermark
from fedaudit.attribution import measurements as rows
from fedaudit.attribution.committed_decision import decide_committed
from fedaudit.attribution.copies import copy_caveats
from fedaudit.attribution.decision import known_designs
from fedaudit.attribution.decision.calibration import calibrate, simulated_federations
from fedaudit.attribution.decision.decision import Decision
from fedaudit.attribution.evidence import commitment
from fedaudit.attribution.evidence.commitment import CommitmentCheck
from fedaudit.attribution.scores import Scores, scored_copies
from fedaudit.attribution.server import dry_run
from fedaudit.attribution.server.round_designs import SHARED
from fedaudit.attribution.server.sum_plan import SumPlan, describe_hidden
from fedaudit.config import registry
from fedaudit.engine import environment
from fedaudit.metrics.attribution import stouffer
from fedaudit.report.document import Report
from fedaudit.report.run_header import build_report, run_id
from fedaudit.system.files import sha256


def decided_report(
    scores: Scores,
    path: Path,
    *,
    threshold: float,
    alpha: float,
    start_time: datetime,
    commitments: Path | None = None,
    log: Path | None = None,
    sets_known: bool | None = None,
    federations: int | None = None,
    progress: Progress = no_progress,
) -> Report:
    """Return the report of a decision over scores alone.

    With a file of published `commitments`, marks that are not among them flag no client. With the
    server's `log` of sums, the decision knows how much of each other client's update an estimate
    holds, and the report says what each client itself adds to its scores. Pass `sets_known` without
    a log to verify such a report without the log: the rows that do not depend on the sets come out
    the same. `federations` is how many federations like this one are simulated for each strength of
    a mark; by default, as many as take some seconds.
    """
    combinations = known_designs.read_log(log, scores.run) if log else {}
    shares = known_designs.estimate_shares(scores, combinations, scores.weights) if log else None
    if commitments:
        commitment.check(commitments, scores.marks)
    committed = decide_committed(
        scores, commitments, threshold=threshold, alpha=alpha, shares=shares, truth={}
    )
    settings: dict[str, Any] = {
        "threshold": threshold,
        "alpha": alpha,
        "sets_known": log is not None if sets_known is None else sets_known,
    }
    simulated = simulated_federations(scores, federations)
    return report(
        command="attribute decide",
        config={
            "run": scores.run,
            **settings,
            "committed": committed.status is not None,
            "federations": simulated,
        },
        start_time=start_time,
        base=scores.base,
        data=[
            file_row(path, len(scores.rounds), "scored round"),
            *commitments_row(committed.status),
            *([file_row(log, len(combinations), "logged round")] if log else []),
        ],
        measurements=[
            *committed.rows,
            *(
                known_designs.contribution_rows(scores, shares, committed.decision.marks)
                if shares is not None
                else ()
            ),
            *simulated_rows(
                scores, simulated, **settings, unopened=committed.unopened, progress=progress
            ),
        ],
        decision=committed.decision,
        limits=[
            *protocol_limits(committed.decision, sets_known=settings["sets_known"]),
            *scores_limits(scores, committed.status, simulated),
        ],
        seeds={},
        device="cpu",
    )


def scores_limits(scores: Scores, status: CommitmentCheck | None, federations: int) -> list[str]:
    """Return the limits of a decision over scores that do not depend on the sets of its sums."""
    return [
        *_shared_sets_caveats(scores),
        *commitment.key_caveats(scores, status, opened=False),
        *copy_caveats(scored_copies(scores)),
        *caveats(scores),
        *skewed_count_caveats(scores),
        *lost_mark_caveats(scores.marks.values()),
        *simulation_caveats(scores, federations),
    ]


MIN_EXPECTED = 10.0
"""The fewest expected hits by chance at which a count is taken as normal."""


def skewed_count_caveats(scores: Scores) -> list[str]:
    """Return a limit for each mark whose counts are too small for a normal z."""
    limits = []
    for mark in scores.marks:
        tests = [t[mark] for r in scores.rounds for t in (r.reference, *r.clients.values())]
        # The expected count of hits by chance, or of misses if that is smaller.
        expected = [
            test.n * min(test.chance, 1 - test.chance) for test in tests if _is_binomial(test)
        ]
        if (least := min(expected, default=MIN_EXPECTED)) < MIN_EXPECTED:
            limits.append(
                f"for mark {mark}, as few as {least:.2g} hits are expected by chance in a test; "
                f"below {MIN_EXPECTED:g} z is skewed, and p-values may be too small; more prompts "
                "or longer answers help"
            )
    return limits


def _is_binomial(score: Score) -> bool:
    """Tell whether z is that of a binomial count: only then does the count show its skewness."""
    variance = score.n * score.chance * (1 - score.chance)
    if variance <= 0:
        return False
    return isclose(score.z, (score.hits - score.n * score.chance) / sqrt(variance), abs_tol=1e-9)


def lost_mark_caveats(watermarks: Iterable[str]) -> list[str]:
    """Return what may take the marks out of documents that still read the same, by plugin."""
    used = set(watermarks)
    return [
        f"a mark of the watermark {name} may be lost by {plugin.lost_by}: a model trained on "
        "documents without it shows nothing of it"
        for name, plugin in registry.plugins("watermark").items()
        if name in used and issubclass(plugin, Watermark) and plugin.lost_by
    ]


def simulated_rows(
    scores: Scores,
    federations: int,
    *,
    threshold: float,
    alpha: float,
    sets_known: bool,
    unopened: int,
    progress: Progress = no_progress,
) -> Iterator[Measurement]:
    """Yield the error rates of these settings in `federations` simulated for each strength."""
    if federations:
        yield from rows.calibration_rows(
            calibrate(
                scores,
                threshold=threshold,
                alpha=alpha,
                federations=federations,
                sets_known=sets_known,
                unopened=unopened,
                progress=progress,
            )
        )


def simulation_caveats(scores: Scores, federations: int) -> list[str]:
    """Return a limit if no federations like this one were simulated."""
    if federations or not simulated_federations(scores, 1):
        return []
    return [
        "how often an innocent client is flagged with these settings was not simulated: "
        "--federations 100 simulates it, as does `attribute calibrate` with the scores"
    ]


def commitments_row(status: CommitmentCheck | None) -> list[dict[str, Any]]:
    """Return the report's row for a file of commitments, where there is one."""
    if status is None:
        return []
    return [file_row(status.path, len(status.published.commitments), "commitment")]


def _shared_sets_caveats(scores: Scores) -> list[str]:
    """Return a limit that names the rounds whose estimates share their sets, if there are any."""
    rounds = {r.round: r.sets for r in scores.rounds if r.protocol == SHARED}
    if not rounds:
        return []
    sets = ", ".join(map(str, sorted(set(rounds.values()))))
    where = f"of rounds {', '.join(map(str, sorted(rounds)))}"
    return [
        f"the estimates {where} are computed from sums over {sets} sets per round that they "
        "share; the decision works out how much they hold of each other's updates from how such "
        "sets are drawn"
    ]


def file_row(path: Path, records: int, unit: str) -> dict[str, Any]:
    """Return the report's row for a file without documents, which counts `records` of a `unit`."""
    row = {"path": str(path), "sha256": sha256(path), "records": records}
    return {**row, "annotation": None, "unit": unit}


def protocol_limits(
    decision: Decision, plan: SumPlan | None = None, *, sets_known: bool = False
) -> list[str]:
    """Return the limits of the decision and, with a `plan`, those of its sums."""
    limits = list(_list_assumptions(decision, sets_known=sets_known))
    if not decision.flagged:
        limits.append(
            "no client is flagged: either no one trained on these marks, or too little of them "
            "shows, or the keys are not the right ones"
        )
    if plan:
        limits += [*plan.notes, *dry_run.describe_sums(plan)]
    if plan and plan.aggregator.merges_each_round:
        limits.append(
            f"under {plan.aggregator.name} an estimate is a sum of few products of low rank: "
            "anyone who has a round's estimates may take them apart without knowing the sets"
        )
    if plan:
        exposures = plan.exposures()
        exposed = [number for number, e in exposures.items() if e.determined]
        if not exposed:
            worst = min(exposures.values(), key=lambda e: e.least_hidden[1])
            limits.append(describe_hidden(worst))
        else:
            first = exposures[exposed[0]]
            limits.append(
                f"every sum was admissible, but together they give single updates away: in round "
                f"{exposed[0]} those of {len(first.determined)} clients, the first after "
                f"{first.queries_until_determined} sums"
            )
    return limits


def _list_assumptions(decision: Decision, *, sets_known: bool) -> Iterator[str]:
    """Yield the assumptions behind the p-values."""
    if any(not t.nulls for t in decision.tests):
        yield (
            "where a mark has no null marks, p-values hold if scores by chance are standard "
            "normal and independent from round to round, which no one has shown: a model that "
            "says the same in each round is counted in each"
        )
    if nulls := max((t.nulls for t in decision.tests), default=0):
        yield (
            f"Z is compared with {nulls} marks that were never issued, tested on the same models, "
            f"where "
            "the mark's plugin draws some: this accounts for what models repeat; they support "
            f"p-values down to {stouffer.supported_p_value(nulls):.1g}"
        )
    for mark in dict.fromkeys(t.mark for t in decision.tests if isfinite(t.tail_degrees)):
        degrees = min(t.tail_degrees for t in decision.tests if t.mark == mark)
        yield (
            f"for mark {mark}, marks that were never issued show that chance has heavier tails "
            f"than the "
            f"normal distribution: its p-values are higher, by Student's t with {degrees:.1f} "
            "degrees of freedom"
        )
    if decision.tests:
        yield (
            "what an estimate holds of other clients' marked documents is worked out from "
            f"{'the sets' if sets_known else 'how the sets are drawn'} and how strongly the "
            "others show the mark; a test that answers in full from less than 0.35 of another "
            "client's update may accuse an innocent client more often"
        )
    if decision.tests and sets_known:
        yield (
            "where scores rise with negative shares of the strongest clients' updates, the test is "
            "taken to answer to these as to positive ones; one that does so too weakly to be "
            "noticed may accuse an innocent client more often"
        )
    if decision.tests and max(len(t.rounds) for t in decision.tests) == 1:
        yield (
            "one round was scored: if answers scatter from estimate to estimate, an innocent "
            "client may show more of a mark than the marked one does; score a second round before "
            "accusing anybody"
        )
    elif once := [client for client, t in decision.flagged.items() if len(t.rounds) == 1]:
        yield (
            f"flagged over a single round: {', '.join(once)}; if answers scatter from estimate to "
            "estimate, an innocent client may show as much of a mark in one round"
        )


def report(
    *,
    command: str,
    config: Mapping[str, Any],
    start_time: datetime,
    base: str,
    base_sha256: str | None = None,
    data: Sequence[Mapping[str, Any]],
    measurements: Sequence[Measurement],
    decision: Decision | None,
    limits: Sequence[str],
    seeds: Mapping[str, int],
    device: str,
    queries: int | None = None,
    models: Mapping[Path, str] | None = None,
) -> Report:
    """Return the report of an attribution; `models` are the fingerprints of its rounds."""
    files = [str(row["sha256"]) for row in data]
    return build_report(
        command=command,
        name=run_id({**config, "files": files}),
        config=config,
        started=start_time,
        base=base,
        base_sha256=base_sha256,
        usage={"queries": queries},
        models=models,
        environment=environment.describe(device),
        data=data,
        seeds=seeds,
        measurements=measurements,
        findings=rows.findings(decision, measurements) if decision else [],
        limits=limits,
    )


MOST_NAMED = 20
"""Clients that a limit names one by one."""


def caveats(scores: Scores) -> list[str]:
    """Return limits that tell a reader which rounds and single estimates have no scores."""
    return [*_rounds(scores), *_estimates(scores)]


def _rounds(scores: Scores) -> list[str]:
    """Return a limit if rounds of the federation have no scores."""
    shown = rows.unscored_text(scores)
    return [f"rounds without scores: {shown}"] if shown else []


def _estimates(scores: Scores) -> list[str]:
    """Return a limit that names the clients without an estimate in some of the scored rounds."""
    absent = {
        client: [r.round for r in scores.rounds if client not in r.clients]
        for client in scores.clients
    }
    partly = {c: rounds for c, rounds in absent.items() if 0 < len(rounds) < len(scores.rounds)}
    if not partly:
        return []
    listing = [f"{client} in {_ranges(rounds)}" for client, rounds in partly.items()]
    more = f"; and of {len(listing) - MOST_NAMED} more" if len(listing) > MOST_NAMED else ""
    return [
        "rounds without an estimate of a client, which took no part in them or was left out: "
        f"{'; '.join(listing[:MOST_NAMED])}{more}"
    ]


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers as "1, 3 to 5"."""
    groups: list[list[int]] = []
    for number in sorted(numbers):
        if groups and number == groups[-1][-1] + 1:
            groups[-1].append(number)
        else:
            groups.append([number])
    return ", ".join(f"{g[0]} to {g[-1]}" if len(g) > 1 else str(g[0]) for g in groups)
