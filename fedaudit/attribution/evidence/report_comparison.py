"""The report of a bundle, compared with what follows from its scores."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedaudit.attribution import report as reporting
from fedaudit.attribution.decision import known_designs
from fedaudit.attribution.evidence import decision_rows, report_file
from fedaudit.attribution.evidence.decision_rows import state_of
from fedaudit.attribution.scores import Scores
from fedaudit.report.check import Check, verdict
from fedaudit.system.files import sha256

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
