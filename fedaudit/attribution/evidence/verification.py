"""An attribution checked by somebody else: everything after the estimates is computed again."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from fedaudit.api.errors import InputError, UsageError, unknown_name_error
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.watermark import Mark
from fedaudit.attribution import estimates as estimates_file
from fedaudit.attribution import scores as scores_file
from fedaudit.attribution.evidence import bundle, decision_rows, opened_marks, report_file
from fedaudit.attribution.evidence.commitment_comparison import (
    CommitmentFiles,
    compare_commitments,
)
from fedaudit.attribution.evidence.decision_rows import state_of
from fedaudit.attribution.evidence.report_comparison import compare_report
from fedaudit.attribution.evidence.score_comparison import compare_scores
from fedaudit.attribution.evidence.source import ServerEvidence, check_source
from fedaudit.attribution.owner import detection, scoring
from fedaudit.attribution.owner.worker_pool import DetectionPool
from fedaudit.federation import watermark_keys as marks_file
from fedaudit.report.check import Check
from fedaudit.system.files import existing_path, sha256


def verify_bundle(
    folder: Path,
    pool: DetectionPool,
    *,
    client: str = "",
    log: Path | None = None,
    commitments: Path | None = None,
    estimates_sha256: str = "",
    progress: Progress = no_progress,
) -> Iterator[Check]:
    """Yield the checks of a bundle: files, estimates, commitments, scores, decision, clients' Z.

    Z is checked for the flagged clients and for a client that is named. `log` is the server's log
    of sums, from the server; without it, a decision that used it can be checked only in part.
    `estimates_sha256` is what the server printed with the estimates. `commitments` are those that
    another party received before training; without them, the bundle's own are used. A check that
    is "not checked" and has `rests` leaves the accusation open.

    Scores are computed with the base model and compared bit for bit. Raises InputError for an
    incomplete bundle, UsageError for a client that was not tested.
    """
    contents = bundle.read(folder)
    yield from _check_files(contents, folder)
    estimates = estimates_file.read(folder / bundle.ESTIMATES)
    scores = scores_file.read(folder / bundle.SCORES)
    bundle.check_one_run(estimates, scores, folder / bundle.ESTIMATES, folder / bundle.SCORES)
    marks = marks_file.read(folder / bundle.MARKS)
    try:
        detection.watermark_plugins(marks)
    except UsageError as error:
        raise InputError(f"{folder / bundle.MARKS}: {error}") from None
    report = report_file.read(folder / bundle.REPORT)
    config = report_file.settings(report)
    if client and client not in scores.clients:
        raise unknown_name_error("client", client, scores.clients)
    if strangers := [mark.id for mark in marks if mark.id not in scores.marks]:
        raise InputError(f"{folder / bundle.MARKS} opens {strangers[0]}, which was not scored.")
    rests = report_file.accusation(report)
    if log:
        existing_path(log, "file")
    public = folder / bundle.COMMITMENTS if bundle.COMMITMENTS in contents.files else None
    if config["committed"] and public is None:
        raise InputError(f"{folder} misses {bundle.COMMITMENTS}, which the report is about.")
    files = CommitmentFiles(bundled=public, published=commitments)
    source = ServerEvidence(log=log, sha256=estimates_sha256)
    yield from check_source(contents, folder, estimates, report, source)
    yield from compare_commitments(files, marks, scores, committed=config["committed"], rests=rests)
    yield from _check_issued(marks)
    again = scoring.score(folder / bundle.ESTIMATES, estimates, marks, pool, progress=progress)
    opened = [mark.id for mark in marks]
    yield from compare_scores(scores, again, opened)
    checks = compare_report(report, scores, folder / bundle.SCORES, public, log)
    if len(opened) == len(scores.marks):
        yield from checks
    else:
        yield from opened_marks.withhold(checks, [m for m in scores.marks if m not in opened])
    yield from opened_marks.check_accusations(report, scores, opened, public, log)
    clients = [*decision_rows.flagged_clients(report), *([client] if client else [])]
    yield from decision_rows.check_statistics(report, scores, list(dict.fromkeys(clients)), opened)


def _check_files(contents: bundle.Bundle, folder: Path) -> Iterator[Check]:
    """Yield one check of all files together, or one for each that differs or is not named."""
    odd = [name for name, digest in contents.files.items() if sha256(folder / name) != digest]
    for name in odd:
        why = f"not the SHA-256 in {bundle.NAME}"
        yield Check(state="differs", kind="file", name=name, why=why)
    if not odd:
        yield Check(state="same", kind="files", name=f"{len(contents.files)} by SHA-256")
    for name in sorted(set(bundle.files_below(folder)) - {bundle.NAME, *contents.files}):
        why = f"{bundle.NAME} does not name it"
        yield Check(state="not checked", kind="file", name=name, why=why)


def _check_issued(marks: Sequence[Mark]) -> Iterator[Check]:
    """Yield whether each opened mark is one that its plugin can have issued, not a made-up one."""
    for mark, plugin in detection.watermark_plugins(marks):
        name = f"{mark.id} is one that {mark.name} issues"
        has_issued = plugin.has_issued(mark.secret)
        if has_issued is None:
            why = "the plugin cannot tell"
            yield Check(state="not checked", kind="mark", name=name, why=why)
        else:
            why = "" if has_issued else "not for its seed and index: what it is about may exist"
            yield Check(state=state_of(has_issued), kind="mark", name=name, why=why)
