"""The owner's step of FedAttr: the key, the estimates, and nothing else.

A score is differential: the test of the global adapter moved by a client's estimated update, less
the test of the global adapter itself, so that what the global model already carries counts for
nobody (FedAttr, equation 7).
"""

import hashlib
import json
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
    """Return the scores of every round of `estimates`; those that are `known` are not asked again.

    A known score of a round whose estimates were made anew is none of them.
    `keep` gets the scores so far after every round, so that nothing is lost by an interruption.
    Raises InputError when `known` are of another run or of other marks.
    """
    found = _begun(estimates, marks, known)
    found = replace(found, device=_device(found, pool.device()))
    have = {one.round for one in found.rounds}
    todo = [one for one in estimates.rounds if one.round not in have]
    if not (todo or have):
        raise InputError(f"{folder} holds no round yet: there is nothing to score.")
    jobs = [_job(folder, estimates, one, marks) for one in todo]
    began, by_round = time.perf_counter(), {one.round: one for one in estimates.rounds}
    before = found.seconds
    for done, (number, measured) in enumerate(pool.run(jobs), 1):
        one = by_round[number]
        rounds = (*found.rounds, _scored(one, measured, _digest(estimates, one)))
        found = replace(
            found,
            rounds=tuple(sorted(rounds, key=lambda one: one.round)),
            seconds=before + time.perf_counter() - began,
        )
        keep(found)
        progress(done, len(jobs))
    return found


def _begun(estimates: Estimates, marks: Sequence[Mark], known: Scores | None) -> Scores:
    named = {mark.id: mark.name for mark in marks}
    tests = {mark.id: settings_digits(mark) for mark in marks}
    if known is None:
        return Scores(
            run=estimates.run,
            base=estimates.base.name,
            aggregation=estimates.aggregation,
            clients=estimates.clients,
            marks=named,
            tests=tests,
            commitments=commitment.commitment_digests(marks),
            asked=estimates.asked,
            dimension=estimates.dimension,
            weights=estimates.shares,
        )
    if known.run != estimates.run:
        raise InputError("The estimates are of another run than the scores; choose another --out.")
    if known.marks != named or known.tests != tests:
        raise InputError(
            "The scores are of other marks than these, or of other settings of theirs; choose "
            "another --out."
        )
    digests = {one.round: _digest(estimates, one) for one in estimates.rounds}
    same = (s for s in known.rounds if digests.get(s.round, s.estimates) == s.estimates)
    return replace(known, rounds=tuple(same), commitments=commitment.commitment_digests(marks))


def _device(found: Scores, here: str) -> str:
    """Return where all scores are made, theirs that are there already included."""
    return here if not found.rounds or found.device == here else "several, or unknown"


def _digest(estimates: Estimates, one: RoundEstimates) -> str:
    """Return a digest of a round's adapters: the global one and every client's estimate."""
    folders = {one.start, *(estimate.adapter for estimate in one.estimates)}
    own = sorted(pair for pair in estimates.files.items() if pair[0].rpartition("/")[0] in folders)
    return hashlib.sha256(repr(own).encode()).hexdigest()[:16]


def settings_digits(mark: Mark) -> str:
    """Return four digits of a mark's SHA-256: one mistake in 65,536 passes; no key is shown.

    Settings that the mark does not name count as the plugin has them: they decide the scores, too.
    """
    settings = table_of(registry.create("watermark", mark.name, mark.options))
    told = {name: value for name, value in asdict(mark).items() if name != "salt"}
    text = json.dumps({**told, "options": settings}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:4]


def _job(
    folder: Path, estimates: Estimates, one: RoundEstimates, marks: Sequence[Mark]
) -> DetectionJob:
    names = (one.start, *(estimate.adapter for estimate in one.estimates))
    return DetectionJob(
        key=one.round,
        base=estimates.base.name,
        sha256=estimates.base.sha256,
        adapters=tuple(folder / name for name in names),
        marks=tuple(marks),
    )


def _scored(one: RoundEstimates, measured: Sequence[dict[str, Score]], digest: str) -> RoundScores:
    reference, *own = measured
    return RoundScores(
        round=one.round,
        reference=reference,
        clients={e.client: found for e, found in zip(one.estimates, own, strict=True)},
        strength={estimate.client: estimate.strength for estimate in one.estimates},
        effective={estimate.client: estimate.effective for estimate in one.estimates},
        estimates=digest,
        **settings_of(one),
    )


def read_known(path: Path) -> Scores | None:
    """Return the scores that `path` holds from earlier rounds, None where there is no file."""
    return files.read(path) if path.exists() else None
