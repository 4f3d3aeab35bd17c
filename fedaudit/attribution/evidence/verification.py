"""An attribution checked by somebody else: everything after the estimates is computed again."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError, UsageError, unknown_name_error
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.watermark import Mark
from fedaudit.attribution import estimates as estimates_file
from fedaudit.attribution import report as reporting
from fedaudit.attribution import scores as scores_file
from fedaudit.attribution.decision.decision import decide
from fedaudit.attribution.estimates import Estimates
from fedaudit.attribution.evidence import bundle, commitment
from fedaudit.attribution.owner import scoring
from fedaudit.attribution.owner.worker_pool import DetectionPool
from fedaudit.attribution.scores import RoundScores, Scores
from fedaudit.audit.verification.report import Check, State, verdict
from fedaudit.federation import commitments as commitments_file
from fedaudit.federation import watermark_keys as marks_file
from fedaudit.report import document
from fedaudit.system.files import existing_path, sha256

COMPARED_SECTIONS = ("measurements", "findings", "limits")
"""Sections of a report that are compared with a new one; the verdict has a check of its own."""


def verify_bundle(
    folder: Path,
    pool: DetectionPool,
    *,
    client: str = "",
    log: Path | None = None,
    progress: Progress = no_progress,
) -> Iterator[Check]:
    """Check a bundle: its files, commitments, scores, decision, Z of a client or of the flagged.

    `log` is the server's log of sums; a decision that was made with it cannot be checked without.
    Scores are computed with the base model and compared bit for bit. Raises InputError for a bundle
    that lacks something, UsageError for a client that nobody tested.
    """
    contents = bundle.read(folder)
    yield from _files(contents, folder)
    estimates = estimates_file.read(folder / bundle.ESTIMATES)
    scores = scores_file.read(folder / bundle.SCORES)
    bundle.check_one_run(estimates, scores, folder / bundle.ESTIMATES, folder / bundle.SCORES)
    marks = marks_file.read(folder / bundle.MARKS)
    report = _report(folder / bundle.REPORT)
    if client and client not in scores.clients:
        raise unknown_name_error("client", client, scores.clients)
    if strangers := [mark.id for mark in marks if mark.id not in scores.marks]:
        raise InputError(f"{folder / bundle.MARKS} opens {strangers[0]}, which was not scored.")
    public = folder / bundle.COMMITMENTS
    yield from _check_commitments(marks, scores, public if public.is_file() else None)
    yield from _check_scores(folder, estimates, scores, marks, pool, progress)
    yield from _check_report(folder, scores, report, public if public.is_file() else None, log)
    yield from _check_statistics(scores, report, client)


def _report(path: Path) -> dict[str, Any]:
    """Return a report of `attribute decide`; raises InputError for any other."""
    report = document.read(path)
    kinds = {"threshold": (int, float), "alpha": (int, float), "committed": (bool,)}
    config = report["run"]["config"]
    if report["run"]["command"] != "attribute decide" or not all(
        type(config.get(name)) in kind for name, kind in kinds.items()
    ):
        raise InputError(f"{path} is no report of this version's `fedaudit attribute decide`.")
    return report


def _state(same: bool) -> State:
    return "same" if same else "differs"


def _files(contents: bundle.Bundle, folder: Path) -> Iterator[Check]:
    """Yield one check of all files together, or one for each file that differs."""
    odd = [name for name, digest in contents.files.items() if sha256(folder / name) != digest]
    for name in odd:
        yield Check(
            state="differs", kind="file", name=name, why=f"not the SHA-256 in {bundle.NAME}"
        )
    if not odd:
        yield Check(state="same", kind="files", name=f"{len(contents.files)} by SHA-256")


def _check_commitments(
    marks: Sequence[Mark], scores: Scores, public: Path | None
) -> Iterator[Check]:
    """Yield whether each opened mark is the one that was committed to, and tested."""
    digests = commitment.commitment_digests(marks)
    published: Mapping[str, str] = {}
    if public:
        published = {c.id: c.sha256 for c in commitments_file.read(public).commitments}
    for mark in scores.marks:
        digest = digests.get(mark)
        name, state, why = f"of mark {mark}", _state(False), ""
        if mark not in {m.id for m in marks}:
            state, why = "not checked", "the mark is not opened"
        elif digest is None:
            state, why = "not checked", "the mark has no salt: nothing was committed to"
        elif digest != scores.commitments.get(mark):
            why = "the opened mark, or its settings, are not those that the scores name"
        elif not public:
            state, why = "not checked", f"the bundle has no {bundle.COMMITMENTS}"
        elif digest != published.get(mark):
            why = f"{bundle.COMMITMENTS} has none of it or that of another"
        else:
            state = "same"
        yield Check(state=state, kind="commitment", name=name, why=why)


def _check_scores(
    folder: Path,
    estimates: Estimates,
    scores: Scores,
    marks: Sequence[Mark],
    pool: DetectionPool,
    progress: Progress,
) -> Iterator[Check]:
    """Yield for every round whether the opened marks' scores come out the same, bit for bit."""
    again = scoring.score(folder / bundle.ESTIMATES, estimates, marks, pool, progress=progress)
    ids = [mark.id for mark in marks]
    where = f"made on {scores.device or 'an unknown device'}, here {again.device}"
    for old, new in zip(scores.rounds, again.rounds, strict=True):
        if old.estimates != new.estimates:
            yield Check(state="differs", kind="estimates", name=f"of round {old.round}",
                        why="the scores are of other estimates")  # fmt: skip
        expected, actual = _sorted_scores(old, ids), _sorted_scores(new, ids)
        same = expected == actual
        if same:
            why = f"{len(actual):,} tests bit for bit"
        elif len(expected) != len(actual):
            why = "other clients were scored"
        else:
            odd = sum(a != b for a, b in zip(expected, actual, strict=True))
            why = f"{odd:,} of {len(expected):,} tests"
        if not same and scores.device != again.device:
            why += f"; {where}"
        yield Check(state=_state(same), kind="scores", name=f"of round {old.round}", why=why)
    for mark in scores.marks:
        if mark not in ids:
            why = "the mark is not opened"
            yield Check(state="not checked", kind="scores", name=f"of mark {mark}", why=why)


def _sorted_scores(round_scores: RoundScores, marks: Sequence[str]) -> list[tuple[object, ...]]:
    """Return a round's scores of some marks, with client and mark, in a fixed order."""
    tables = {"": round_scores.reference, **round_scores.clients}
    return [(client, mark, tables[client][mark]) for client in sorted(tables) for mark in marks]


def _check_report(
    folder: Path, scores: Scores, report: Mapping[str, Any], public: Path | None, log: Path | None
) -> Iterator[Check]:
    """Yield whether the report is about these scores, and says what follows from them."""
    path = folder / bundle.SCORES
    hashes = [row["sha256"] for row in report["data"]]
    yield Check(state=_state(sha256(path) in hashes), kind="report", name="is about these scores")
    config = report["run"]["config"]
    if config["committed"] and public is None:
        raise InputError(f"{folder} misses {bundle.COMMITMENTS}, which the report is about.")
    if config.get("sets_known"):
        if log is None:
            yield Check(state="not checked", kind="decision", name="with the server's log of sums",
                        why="no bundle has it: give it with --log")  # fmt: skip
            yield verdict(report)
            return
        yield Check(
            state=_state(sha256(existing_path(log, "file")) in hashes),
            kind="report",
            name="is about this log",
        )
    elif log:
        raise UsageError("This decision was made without the server's log: leave --log out.")
    again = reporting.decided_report(
        scores,
        path,
        threshold=config["threshold"],
        alpha=config["alpha"],
        start_time=datetime.now(UTC),
        commitments=public if config["committed"] else None,
        log=log,
        federations=config.get("federations", 0),
    ).to_json()
    for section in COMPARED_SECTIONS:
        old, new = report[section], json.loads(json.dumps(again[section]))
        odd = [x for x in old if x not in new] + [x for x in new if x not in old]
        why = f"{len(old):,} bit for bit" if old == new else f"{len(odd):,} are others"
        yield Check(state=_state(old == new), kind="decision", name=section, why=why)
    yield verdict(report)


def _check_statistics(scores: Scores, report: Mapping[str, Any], client: str) -> Iterator[Check]:
    """Yield Z of one client, or of every client that is named in a finding."""
    named = [str(finding["evidence"].get("client", "")) for finding in report["findings"]]
    config = report["run"]["config"]
    decision = decide(scores, threshold=config["threshold"], alpha=config["alpha"])
    for name in [client] if client else named:
        rows = {
            row["scope"]["mark"]: row["value"]
            for row in report["measurements"]
            if row["metric"] == "stouffer_z" and set(row["scope"]) == {"client", "mark"}
            and row["scope"]["client"] == name
        }  # fmt: skip
        for test in decision.tests:
            if test.client == name and test.mark in rows:
                why = f"{test.z!r} over {len(test.rounds)} rounds"
                same = test.z == rows[test.mark]
                yield Check(
                    state=_state(same), kind="Z", name=f"of {name}, mark {test.mark}", why=why
                )
