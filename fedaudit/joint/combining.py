"""The members' signed results as one report."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.api.records import Finding, Measurement
from fedaudit.config.options import build
from fedaudit.engine import environment
from fedaudit.joint import exchange
from fedaudit.joint.counting import REPORT
from fedaudit.joint.exchange import RESULT, Message
from fedaudit.joint.member import fingerprints, open_member, read_commitments, receive
from fedaudit.report.document import Report, validate
from fedaudit.report.run_header import build_report, run_id
from fedaudit.report.verdict.policy import worst_status
from fedaudit.system.files import sha256


@dataclass(frozen=True, kw_only=True)
class Combined:
    """What all members found together."""

    statuses: Mapping[str, str]
    """Each member's verdict on its own strings."""
    report: Report | None
    """One report of all pairs; None if a member sent no counts."""

    @property
    def status(self) -> str:
        """The verdict on all pairs: the report's, or else the worst of the members'."""
        if self.report is None:
            return worst_status(self.statuses.values())
        return str(self.report.to_json()["verdict"]["status"])


def combine(folder: Path) -> Combined:
    """Return the members' results, whose files are in `folder`, as one.

    Raises InputError if a result is missing or not signed by its member, and if that of the member
    whose folder this is does not belong to the report in it.
    """
    began = datetime.now(UTC)
    commitments = read_commitments(folder)
    results = {name: receive(folder, RESULT, name, commitments) for name in commitments}
    _check_own(folder, results)
    statuses = {name: result.body["verdict"]["status"] for name, result in results.items()}
    if any(result.body["rows"] is None for result in results.values()):
        return Combined(statuses=statuses, report=None)
    terms = next(iter(commitments.values())).body["terms"]
    report = build_report(
        command="joint",
        name=run_id(fingerprints(commitments)),
        config={"attacks": {terms["attack"]["name"]: terms["attack"]}, **terms},
        started=began,
        base="the members' own copies",
        adapter="the members' own copies",
        sha256=terms["adapter"],
        environment=environment.describe("cpu"),
        data=[
            {
                "path": exchange.path_of(Path(), RESULT, name).name,
                "sha256": result.digest,
                "records": commitments[name].body["records"]["count"],
                "annotation": commitments[name].body["records"]["annotation"],
            }
            for name, result in results.items()
        ],
        seeds={"extraction": terms["seed"]},
        measurements=[
            _record(Measurement, row, name)
            for name, result in results.items()
            for row in result.body["rows"]
        ],
        findings=[
            _finding(one, name)
            for name, result in results.items()
            for one in result.body["findings"]
        ],
        limits=[
            f"{name}: {limit}"
            for name, result in results.items()
            for limit in result.body["limits"]
        ],
    )
    try:
        validate(report.to_json())
    except Exception as error:  # strangers' rows may hold numbers too large to compute with
        raise InputError(f"The members' rows cannot be judged together: {error}") from None
    return Combined(statuses=statuses, report=report)


def _finding(table: Any, member: str) -> Any:
    """Return a member's finding, whose strings it keeps to itself."""
    if not isinstance(table, dict):
        raise InputError(f"The result of {member} has a finding of another form.")
    named = f"{member}-{table.get('id')}"
    return _record(Finding, {**table, "id": named, "evidence": {}}, member)


def _record(kind: Any, table: Mapping[str, Any], member: str) -> Any:
    try:
        return build(kind, table, "row")
    except Exception as error:
        raise InputError(f"The result of {member} has a row of another form: {error}") from None


def _check_own(folder: Path, results: Mapping[str, Message]) -> None:
    """Raise InputError if this member's result in circulation is not that of its own report."""
    path = folder / exchange.PRIVATE / REPORT
    if not path.exists():
        return
    name = open_member(folder).name
    if name in results and results[name].body["report"] != sha256(path):
        raise InputError(f"The result of {name} does not belong to {path}.")
