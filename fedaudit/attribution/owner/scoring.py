"""The owner's step of FedAttr: scoring estimates, with the key and the estimates as only inputs.

A score is a difference: the test of the global adapter plus a client's estimated update, minus the
test of the global adapter itself, so that a mark already in the global model is held against no
client (FedAttr, equation 7).
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from fedaudit.api.errors import InputError
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.watermark import Mark, Score
from fedaudit.attribution import scores as files
from fedaudit.attribution.estimates import Estimates, RoundEstimates
from fedaudit.attribution.evidence import commitment
from fedaudit.attribution.owner.worker_pool import DetectionJob, DetectionPool
from fedaudit.attribution.scores import RoundScores, Scores
from fedaudit.attribution.server.round_designs import settings_of
from fedaudit.config import registry
from fedaudit.config.options import table_of
from fedaudit.system.files import json_sha256


def score(
    folder: Path,
    estimates: Estimates,
    marks: Sequence[Mark],
    pool: DetectionPool,
    *,
    known: Scores | None = None,
    keep: Callable[[Scores], None] = lambda scores: None,
    progress: Progress = no_progress,
) -> Scores:
    """Return the scores of every round of `estimates`; rounds in `known` are not scored again.

    A round whose estimates have changed does not count as known. `keep` gets the scores so far
    after every round, so that an interruption loses at most one round. Raises InputError if `known`
    are of another run or of other marks.
    """
    scores = _resume_scores(estimates, marks, known)
    scores = replace(scores, device=_device(scores, pool.device()))
    have = {r.round for r in scores.rounds}
    todo = [r for r in estimates.rounds if r.round not in have]
    if not (todo or have):
        raise InputError(f"{folder} holds no round yet: there is nothing to score.")
    jobs = [_job(folder, estimates, r, marks) for r in todo]
    began, by_round = time.perf_counter(), {r.round: r for r in estimates.rounds}
    before = scores.seconds
    for done, (number, measured) in enumerate(pool.run(jobs), 1):
        record = by_round[number]
        rounds = (*scores.rounds, _round_scores(record, measured, _digest(estimates, record)))
        scores = replace(
            scores,
            rounds=tuple(sorted(rounds, key=lambda r: r.round)),
            seconds=before + time.perf_counter() - began,
        )
        keep(scores)
        progress(done, len(jobs))
    return scores


def _resume_scores(estimates: Estimates, marks: Sequence[Mark], existing: Scores | None) -> Scores:
    """Return scores with the rounds of `existing` whose estimates are unchanged, if any."""
    scores = Scores(
        run=estimates.run,
        base=estimates.base.name,
        aggregation=estimates.aggregation,
        clients=estimates.clients,
        marks={mark.id: mark.name for mark in marks},
        tests={mark.id: settings_digits(mark) for mark in marks},
        commitments=commitment.commitment_digests(marks),
        asked=estimates.asked,
        trained=estimates.trained,
        noted=estimates.noted,
        dimension=estimates.dimension,
        weights=estimates.shares,
        federation_rounds=estimates.federation_rounds,
        copies=estimates.copies,
    )
    if existing is None:
        return scores
    if existing.run != estimates.run:
        raise InputError("The estimates are of another run than the scores; choose another --out.")
    if existing.marks != scores.marks or existing.tests != scores.tests:
        raise InputError(
            "The scores are of other marks than these, or of other settings of theirs; choose "
            "another --out."
        )
    digests = {r.round: _digest(estimates, r) for r in estimates.rounds}
    same = (s for s in existing.rounds if digests.get(s.round, s.estimates) == s.estimates)
    if existing.federation_rounds > scores.federation_rounds:  # these estimates are the older ones
        scores = replace(
            scores, federation_rounds=existing.federation_rounds, copies=existing.copies
        )
    return replace(scores, rounds=tuple(same), device=existing.device, seconds=existing.seconds)


def _device(scores: Scores, device: str) -> str:
    """Return the device of all scores, including those computed earlier."""
    return device if not scores.rounds or scores.device == device else "several, or unknown"


def _digest(estimates: Estimates, record: RoundEstimates) -> str:
    """Return a digest of a round's adapters: the global one and every client's estimate."""
    folders = {record.start, *(estimate.adapter for estimate in record.estimates)}
    hashes = sorted(
        pair for pair in estimates.files.items() if pair[0].rpartition("/")[0] in folders
    )
    return hashlib.sha256(repr(hashes).encode()).hexdigest()[:16]


def settings_digits(mark: Mark) -> str:
    """Return four hex digits of a mark's SHA-256: one change in 65,536 is missed; no key is shown.

    Settings that the mark leaves out enter with the plugin's defaults, as they affect scores too.
    """
    settings = table_of(registry.create("watermark", mark.name, mark.options))
    fields = {name: value for name, value in asdict(mark).items() if name != "salt"}
    return json_sha256({**fields, "options": settings})[:4]


def _job(
    folder: Path, estimates: Estimates, record: RoundEstimates, marks: Sequence[Mark]
) -> DetectionJob:
    names = (record.start, *(estimate.adapter for estimate in record.estimates))
    return DetectionJob(
        key=record.round,
        base=estimates.base.name,
        sha256=estimates.base.sha256,
        adapters=tuple(folder / name for name in names),
        marks=tuple(marks),
    )


def _round_scores(
    record: RoundEstimates, measured: Sequence[dict[str, Score]], digest: str
) -> RoundScores:
    reference, *client_scores = measured
    return RoundScores(
        round=record.round,
        reference=reference,
        clients={
            e.client: scores for e, scores in zip(record.estimates, client_scores, strict=True)
        },
        strength={estimate.client: estimate.strength for estimate in record.estimates},
        effective={estimate.client: estimate.effective for estimate in record.estimates},
        estimates=digest,
        **settings_of(record),
    )


def read_known(path: Path) -> Scores | None:
    """Return the scores that `path` holds from earlier rounds, None where there is no file."""
    return files.read(path) if path.exists() else None
