"""An attribution checked by someone else: everything after the estimates is computed again."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError, UsageError, unknown_name_error
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.watermark import Mark
from fedaudit.attribution import estimates as estimates_file
from fedaudit.attribution import report as reporting
from fedaudit.attribution import scores as scores_file
from fedaudit.attribution.decision import known_designs
from fedaudit.attribution.decision.decision import ALPHA, verdicts
from fedaudit.attribution.estimates import Estimates
from fedaudit.attribution.evidence import bundle, commitment, decision_rows, report_file
from fedaudit.attribution.evidence.bundle import Bundle
from fedaudit.attribution.evidence.decision_rows import state_of
from fedaudit.attribution.owner import detection, scoring
from fedaudit.attribution.owner.worker_pool import DetectionPool
from fedaudit.attribution.scores import RoundScores, Scores
from fedaudit.attribution.server import sums_log
from fedaudit.federation import commitments as commitments_file
from fedaudit.federation import watermark_keys as marks_file
from fedaudit.federation.commitments import Commitments
from fedaudit.metrics.attribution.stouffer import THRESHOLD
from fedaudit.report.check import Check, State, verdict
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
    stated = estimates_sha256
    if stated and not SHA256.fullmatch(stated):
        raise UsageError(f"--estimates-sha256 {stated!r} is not 64 hex digits of SHA-256.")
    digest = sha256(folder / bundle.ESTIMATES / estimates_file.NAME)
    yield _check_contents(contents, digest, estimates, report)
    yield _check_estimates(digest, estimates.run, log, stated, rests)
    yield _compare_published(public, commitments, scores, rests)
    yield from _check_commitments(public, commitments, marks, scores, config["committed"])
    yield from _check_issued(marks)
    again = scoring.score(folder / bundle.ESTIMATES, estimates, marks, pool, progress=progress)
    opened = [mark.id for mark in marks]
    yield from compare_scores(scores, again, opened)
    checks = compare_report(report, scores, folder / bundle.SCORES, public, log)
    if len(opened) == len(scores.marks):
        yield from checks
    else:
        yield from withhold(checks, [m for m in scores.marks if m not in opened])
    yield from check_accusations(report, scores, opened, public, log)
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


SHA256 = re.compile(r"[0-9a-fA-F]{64}")
HOW = (
    f"give the SHA-256 of {estimates_file.NAME} that the server printed (--estimates-sha256), or "
    "the log that you got from the server (--log)"
)


def _check_contents(
    contents: Bundle, digest: str, estimates: Estimates, report: Mapping[str, Any]
) -> Check:
    """Return whether a bundle is about what it names; `digest` is that of its estimates.json."""
    named: dict[str, object] = {
        "schema_version": bundle.SCHEMA_VERSION,
        "run": estimates.run,
        "rounds": tuple(r.round for r in estimates.rounds),
        "clients": estimates.clients,
        "settings": report_file.settings(report),
        "estimates": digest,
    }
    odd = [name for name, value in named.items() if getattr(contents, name) != value]
    adapters = (f"{bundle.ESTIMATES}/{name}" for name in estimates_file.adapter_files(estimates))
    odd += ["files"] * any(name not in contents.files for name in adapters)
    why = f"not as the estimates and the report have them: {', '.join(odd)}" if odd else ""
    return Check(state=state_of(not odd), kind="bundle", name="names its contents", why=why)


def _check_estimates(digest: str, run: str, log: Path | None, stated: str, rests: str) -> Check:
    """Return whether the server handed over an estimates.json of this SHA-256, as the last one.

    `log` and the SHA-256 `stated` are from the server itself, not from the accuser. Raises
    InputError for the log of another run.
    """
    check = Check(state="not checked", kind="estimates", name="as the server handed them over")
    handed = []
    if log is not None:
        sums_log.read(log, run)  # raises InputError for another run's
        handed = sums_log.handed_over(log)
    if not handed and not stated:
        return replace(check, why=HOW, rests=rests)
    servers = [*([stated.lower()] if stated else []), *handed[-1:]]
    wrong = [last for last in servers if last != digest]
    if not wrong:
        return replace(check, state="same", why=f"SHA-256 {digest}")
    why = f"SHA-256 {digest}, the server's is {wrong[0]}"
    if digest in handed:
        why = f"{why}: it handed over more rounds later"
    return replace(check, state="differs", why=why)


FOLLOWS = ("decision", "verdict", "Z")
"""Kinds of checks that compare a report with its scores, which are then not all checked."""


def withhold(checks: Iterator[Check], closed: Sequence[str]) -> Iterator[Check]:
    """Yield the checks; what follows from scores that were not computed again is "not checked"."""
    why = f"it follows from the bundle's scores; those of {', '.join(closed)} are not checked"
    for check in checks:
        is_open = check.state == "same" and check.kind in FOLLOWS
        yield replace(check, state="not checked", why=why) if is_open else check


def check_accusations(
    report: Mapping[str, Any],
    scores: Scores,
    opened: Sequence[str],
    public: Path | None,
    log: Path | None,
) -> Iterator[Check]:
    """Yield, for each flagged client, whether what is checked flags it by the same mark.

    That is asked where not all marks are opened, or where the decision took a higher alpha or a
    lower tau than the usual ones. A mark that is not opened counts as a test of every client that
    found nothing: its scores may be made up, and must not make it easier to flag by another.
    """
    config = report_file.settings(report)
    status = (
        commitment.check_commitments(scores, public) if config["committed"] and public else None
    )
    closed = [mark for mark in scores.marks if mark not in opened]
    alpha, tau = min(config["alpha"], ALPHA), max(config["threshold"], THRESHOLD)
    given = f"alpha {config['alpha']:g} and tau {config['threshold']:g}"
    is_lax = (alpha, tau) != (config["alpha"], config["threshold"])
    if not closed and not is_lax:
        return
    shares = None
    if log is not None and config["sets_known"]:
        combinations = known_designs.read_log(log, scores.run)
        shares = known_designs.estimate_shares(scores, combinations, scores.weights)
    found = verdicts(
        _only(scores, opened),
        threshold=tau,
        alpha=alpha,
        shares=shares,
        unopened=len(closed) + (status.unopened if status else 0),
    )
    for finding in report["findings"]:
        client, mark = (str(finding["evidence"].get(name, "")) for name in ("client", "mark"))
        name = f"of {client}" + ", by the opened marks alone" * bool(closed)
        name += f", at alpha {alpha:g} and tau {tau:g}" * is_lax
        check = Check(state="not checked", kind="accusation", name=name)
        rests = report_file.accusation(report)
        if mark not in opened:
            why = f"it rests on mark {mark}, which is not opened"
            yield replace(check, why=why, rests=rests)
        elif (client, mark) in found and found[client, mark].flagged:
            yield replace(check, state="same")
        else:
            needed = [f"with the scores of {', '.join(closed)}"] * bool(closed)
            needed += [f"at {given}, which the decision chose"] * is_lax
            why = f"mark {mark} flags it only {' or '.join(needed)}"
            yield replace(check, why=why, rests=rests)


def _only(scores: Scores, marks: Sequence[str]) -> Scores:
    """Return the scores of some marks."""
    rounds = tuple(
        replace(
            r,
            reference={mark: r.reference[mark] for mark in marks},
            clients={c: {mark: row[mark] for mark in marks} for c, row in r.clients.items()},
        )
        for r in scores.rounds
    )
    return replace(scores, marks={mark: scores.marks[mark] for mark in marks}, rounds=rounds)


SETTINGS = (
    *("base", "aggregation", "clients", "asked", "trained", "noted", "dimension", "weights"),
    *("federation_rounds", "copies"),
)
"""Fields of scores that describe the federation."""
MARK_SETTINGS = ("marks", "tests", "commitments")
"""Fields of scores that describe each mark, apart from the results of its tests."""
TESTS = ("reference", "clients", "estimates")
"""Fields of a round that are compared in checks of their own; the other fields are its settings."""


def compare_scores(old: Scores, new: Scores, opened: Sequence[str]) -> Iterator[Check]:
    """Yield whether the scores `old` equal `new`, which were computed again for the `opened` marks.

    Scores of marks that are not opened are not checked. The device and the seconds may differ.
    """
    yield _check_settings(old, new, opened)
    by_round = {record.round: record for record in old.rounds}
    for record in new.rounds:
        yield from _compare_round(by_round[record.round], record, opened, _devices(old, new))
    for mark in old.marks:
        if mark not in opened:
            why = "the mark is not opened"
            yield Check(state="not checked", kind="scores", name=f"of mark {mark}", why=why)


def _check_settings(old: Scores, new: Scores, opened: Sequence[str]) -> Check:
    odd = [name for name in SETTINGS if getattr(old, name) != getattr(new, name)]
    for name in MARK_SETTINGS:
        tables = (getattr(old, name), getattr(new, name))
        if len({tuple(table.get(mark) for mark in opened) for table in tables}) > 1:
            odd.append(name)
    if [r.round for r in old.rounds] != [r.round for r in new.rounds]:
        odd.append("the order of rounds")
    return _settings_check("of the federation", odd)


def _settings_check(name: str, odd: Sequence[str]) -> Check:
    why = f"not as the estimates and marks have them: {', '.join(odd)}" if odd else ""
    return Check(state="differs" if odd else "same", kind="settings", name=name, why=why)


def _compare_round(
    old: RoundScores, new: RoundScores, opened: Sequence[str], devices: str
) -> Iterator[Check]:
    where = f"of round {old.round}"
    if old.estimates != new.estimates:
        why = "the scores are of other estimates"
        yield Check(state="differs", kind="estimates", name=where, why=why)
    names = [f.name for f in fields(RoundScores) if f.name not in TESTS]
    yield _settings_check(where, [n for n in names if getattr(old, n) != getattr(new, n)])
    expected, actual = _sorted_scores(old, opened), _sorted_scores(new, opened)
    if expected == actual:
        why = f"{len(actual):,} tests bit for bit"
        yield Check(state="same", kind="scores", name=where, why=why)
        return
    if [x[:2] for x in expected] != [x[:2] for x in actual]:
        why = "other clients were scored"
    else:
        odd = sum(a != b for a, b in zip(expected, actual, strict=True))
        why = f"{odd:,} of {len(expected):,} tests"
    yield Check(state="differs", kind="scores", name=where, why=f"{why}{devices}")


def _devices(old: Scores, new: Scores) -> str:
    """Return both devices in words if they differ: then the scores' last digits may differ."""
    if old.device == new.device:
        return ""
    return f"; made on {old.device or 'an unknown device'}, here {new.device}"


def _sorted_scores(round_scores: RoundScores, marks: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return a round's scores of some marks, with client and mark, in a fixed order."""
    tables = {"": round_scores.reference, **round_scores.clients}
    return [(client, mark, tables[client][mark]) for client in sorted(tables) for mark in marks]


PUBLISHED = "as published"


def _compare_published(
    bundled: Path | None, published: Path | None, scores: Scores, rests: str
) -> Check:
    """Return whether the bundle's commitments are those that another party received earlier.

    `rests` is the sentence that rests on the keys having been fixed beforehand. Raises InputError
    for files without commitments.
    """
    check = Check(state="not checked", kind="commitments", name=PUBLISHED)
    if bundled is None:
        check = replace(check, why=f"the bundle has no {commitments_file.NAME}")
        return replace(check, state="differs") if published else replace(check, rests=rests)
    ours = commitments_file.read(bundled)
    count = len(ours.commitments)
    if published is None:
        noted = ", the server's by the estimates" if sha256(bundled) == scores.noted else ""
        why = (
            f"the bundle's own file{noted}, {count:,} of SHA-256 {sha256(bundled)}: give with "
            "--commitments the one that you received before training"
        )
        return replace(check, why=why, rests=rests)
    theirs = commitments_file.read(published)
    odd = _differences(ours, theirs)
    if not odd and ours == theirs:
        return replace(check, state="same", why=f"{count:,}")
    why = f"not as in {published}: {odd or 'when they were made, or their order'}"
    return replace(check, state="differs", why=why)


def _differences(ours: Commitments, theirs: Commitments) -> str:
    """Return in words how many commitments are missing, new or changed; empty for none."""
    bundled, published = ({e.id: e.sha256 for e in side.commitments} for side in (ours, theirs))
    counts = {
        "lacking": len(set(published) - set(bundled)),
        "not published": len(set(bundled) - set(published)),
        "of another key": sum(bundled[i] != published[i] for i in set(bundled) & set(published)),
    }
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)


def _check_commitments(
    bundled: Path | None,
    received: Path | None,
    marks: Sequence[Mark],
    scores: Scores,
    committed: bool,
) -> Iterator[Check]:
    """Yield whether each opened mark is the one that was committed to and tested.

    `committed` says whether the decision was made with commitments.
    """
    path = received or bundled
    if path and not committed:
        why = "it was made without them, so unopened ones do not count as tests"
        yield Check(state="differs", kind="decision", name="by commitments", why=why)
    published = {e.id: e for e in commitments_file.read(path).commitments} if path else {}
    digests = commitment.commitment_digests(marks)
    opened = {mark.id for mark in marks}
    for mark, plugin in scores.marks.items():
        digest, entry = digests.get(mark), published.get(mark)
        state: State = "differs"
        why = ""
        if entry and entry.plugin != plugin:
            why = f"the scores are of a mark by {plugin}, {path} has one by {entry.plugin}"
        elif mark not in opened:
            state, why = "not checked", "the mark is not opened"
        elif digest != scores.commitments.get(mark):
            why = "the opened mark, or its settings, are not those that the scores name"
        elif not path:
            state, why = "not checked", f"the bundle has no {commitments_file.NAME}"
        elif entry is None or digest != entry.sha256:
            why = f"{path.name} has none of it or that of another"
        else:
            state = "same"
        yield Check(state=state, kind="commitment", name=f"of mark {mark}", why=why)


COMPARED_SECTIONS = ("measurements", "findings", "limits")
"""Sections of a report that are compared with a new report if the decision can be repeated."""
OTHER_SECTIONS = ("schema_version", "status", "seeds", "claims", "artifacts")
"""Sections with little content in a decision's report."""
Report = Mapping[str, Any]


def compare_report(
    report: Report, scores: Scores, path: Path, public: Path | None, log: Path | None
) -> Iterator[Check]:
    """Yield whether a report is about the scores in `path`, and states what follows from them.

    `public` has the commitments and `log` the sets that the decision used, if it used any. Without
    the log, a decision made with the sets is checked only in what does not depend on them.
    """
    config = report_file.settings(report)
    given = log if config["sets_known"] else None
    again = json.loads(json.dumps(_decide_again(config, scores, path, public, given)))
    hashes = [row["sha256"] for row in report["data"]]
    yield Check(state=state_of(sha256(path) in hashes), kind="report", name="is about these scores")
    lacks_log = bool(config["sets_known"]) and log is None
    if given is not None:
        same = sha256(given) in hashes
        yield Check(state=state_of(same), kind="report", name="is about this log")
    if log is not None:
        yield _check_completeness(scores, log)
    yield from _compare_header(report, again, lacks_log=lacks_log)
    if lacks_log:
        yield from decision_rows.check_without_sets(report, again, scores, public)
    else:
        yield from _compare_sections(report, again)
    check = _check_verdict(report)
    if not lacks_log and check.state != "differs" and report["verdict"] != again["verdict"]:
        check = replace(check, state="differs", why="these scores give another one")
    if lacks_log and check.state == "same":
        check = replace(check, state="not checked", why="it follows from the report's own rows")
    yield check


def _decide_again(
    config: Report, scores: Scores, path: Path, public: Path | None, log: Path | None
) -> dict[str, Any]:
    return reporting.decided_report(
        scores,
        path,
        threshold=config["threshold"],
        alpha=config["alpha"],
        start_time=datetime.now(UTC),
        commitments=public if config["committed"] else None,
        log=log,
        sets_known=config["sets_known"],
        federations=config["federations"],
    ).to_json()


def _check_completeness(scores: Scores, log: Path) -> Check:
    """Return whether every estimate in the server's log of sums was scored."""
    targets = {
        (number, combination.target)
        for number, combinations in known_designs.read_log(log, scores.run).items()
        for combination in combinations
    }
    scored = {(record.round, client) for record in scores.rounds for client in record.clients}
    absent = [f"{client} in round {number}" for number, client in sorted(targets - scored)]
    more = f", and {len(absent) - 3:,} more" if len(absent) > 3 else ""
    why = f"without scores: {', '.join(absent[:3])}{more}" if absent else f"{len(targets):,}"
    return Check(
        state=state_of(not absent), kind="estimates", name="that the log tells of", why=why
    )


def _compare_header(report: Report, again: Report, *, lacks_log: bool) -> Iterator[Check]:
    """Yield whether a report names the target, the settings and the files of this decision."""
    yield _compare("target", report["target"], again["target"])
    yield _compare("settings", report["run"]["config"], again["run"]["config"])
    files, expected = _without_paths(report["data"]), _without_paths(again["data"])
    if lacks_log and len(files) == len(expected) + 1:
        files = files[:-1]  # the log, which is not available for comparison
    why = "" if files == expected else "other files than the scores, commitments and log"
    yield Check(state=state_of(files == expected), kind="report", name="data", why=why)
    sections = set(report) ^ set(again)
    odd = sorted(sections | {n for n in OTHER_SECTIONS if report.get(n) != again.get(n)})
    if not lacks_log and report["run"]["id"] != again["run"]["id"]:
        odd.append("run id")
    if {**report["budget"], "seconds": 0} != {**again["budget"], "seconds": 0}:
        odd.append("budget")
    yield Check(state=state_of(not odd), kind="report", name="other sections", why=", ".join(odd))


def _compare(name: str, old: Report, new: Report) -> Check:
    odd = sorted(key for key in {**old, **new} if old.get(key) != new.get(key))
    return Check(state=state_of(old == new), kind="report", name=name, why=", ".join(odd))


def _without_paths(data: Sequence[Report]) -> list[dict[str, Any]]:
    """Return a report's rows of files without paths, which are those of another machine."""
    return [{key: value for key, value in row.items() if key != "path"} for row in data]


def _compare_sections(report: Report, again: Report) -> Iterator[Check]:
    for section in COMPARED_SECTIONS:
        old, new = report[section], again[section]
        odd = [x for x in old if x not in new] + [x for x in new if x not in old]
        why = f"{len(old):,} bit for bit" if old == new else f"{len(odd):,} are others"
        yield Check(state=state_of(old == new), kind="decision", name=section, why=why)


def _check_verdict(report: Report) -> Check:
    """Return whether the verdict follows from the report's rows by the rule of every decision."""
    if "policy" in report["verdict"]:
        name = report["verdict"]["status"]
        why = "by a policy of its own, which no decision has"
        return Check(state="differs", kind="verdict", name=name, why=why)
    return verdict(report)
