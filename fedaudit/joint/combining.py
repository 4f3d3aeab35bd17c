"""The members' signed results as one report."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.api.plugin import Result
from fedaudit.api.records import Finding, Measurement
from fedaudit.api.target_sets import EXCLUSIVE
from fedaudit.config.options import build
from fedaudit.engine import environment
from fedaudit.extraction.leak_tests import NEW
from fedaudit.joint import exchange
from fedaudit.joint.counting import REPORT
from fedaudit.joint.exchange import RESULT, Message
from fedaudit.joint.member import fingerprints, open_member, read_commitments, receive
from fedaudit.report.document import Report, validate
from fedaudit.report.run_header import build_report, run_id
from fedaudit.report.verdict.policy import worst_status
from fedaudit.system.files import sha256

SCOPE = frozenset({"attacker", "victim", "source", "set", "label", "test", "member"})
"""The parts of a scope in the rows that `joint.counting` makes."""
TESTS = 2
"""The tests that a verdict makes of a pair: of all strings together, and of the surest one."""


@dataclass(frozen=True, kw_only=True)
class Combined:
    """What all members found together."""

    statuses: Mapping[str, str]
    """Each member's verdict on its own strings; where its counts say otherwise, the worse one."""
    doubts: Mapping[str, str]
    """Why a member's result is not taken as it is, by the member's name."""
    report: Report | None
    """One report of all pairs; None if a member sent no counts."""

    @property
    def status(self) -> str:
        """The verdict on all pairs: the worst of the report's and the members' own.

        The report alone may be milder than a member, since it corrects for the tests of all pairs.
        """
        statuses = [*self.statuses.values()]
        return worst_status(statuses if self.report is None else [*statuses, _status(self.report)])

    def lines(self) -> Iterator[str]:
        """Yield each member's verdict, with the doubt about it if there is one, and that on all."""
        for name, status in self.statuses.items():
            doubt = f" ({self.doubts[name]})" if name in self.doubts else ""
            yield f"{name}'s strings: {status}{doubt}"
        yield f"all members: {self.status}"


def combine(folder: Path) -> Combined:
    """Return the members' results, whose files are in `folder`, as one.

    If a member's counts are not of its own strings, or do not bear out a verdict as bad as it
    states, they are left out and its strings count as not measured: refusing the folder would let
    one member keep the others from their report. Raises InputError if a result is missing or not
    signed by its member, and if that of the member whose folder this is does not belong to the
    report in it.
    """
    began = datetime.now(UTC)
    commitments = read_commitments(folder)
    results = {name: receive(folder, RESULT, name, commitments) for name in commitments}
    _check_own(folder, results)
    terms = next(iter(commitments.values())).body["terms"]
    attack = terms["attack"]["name"]

    def report_of(members: Sequence[Result], notes: Sequence[str] = ()) -> Report:
        return build_report(
            command="joint",
            name=run_id(fingerprints(commitments)),
            config={"attacks": {attack: terms["attack"]}, **terms},
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
            measurements=[row for one in members for row in one.measurements],
            findings=[finding for one in members for finding in one.findings],
            limits=[*(limit for one in members for limit in one.limits), *notes],
        )

    statuses, doubts, counts = {}, {}, {}
    for name, result in results.items():
        statuses[name] = stated = result.body["verdict"]["status"]
        if result.body["rows"] is None:
            continue
        others = commitments.keys() - {name}
        try:
            counts[name] = _read_counts(name, result.body, attack, others)
            given = _judge(report_of([counts[name]]), TESTS * len(others))
            statuses[name] = worst_status([stated, given])
            if statuses[name] != given:
                raise InputError(f"it says {stated}, but they give {given}")
            if given != stated:
                doubts[name] = f"it says {stated}, but its counts give {given}"
        except InputError as error:
            statuses[name] = worst_status([stated, "inconclusive"])
            doubts[name] = f"its counts are left out: {error}"
            counts[name] = _no_counts(name, doubts[name], attack, others)
    if counts.keys() != results.keys():
        return Combined(statuses=statuses, doubts=doubts, report=None)
    notes = [f"{name}: {doubt}." for name, doubt in doubts.items()]
    report, worst = report_of([*counts.values()], notes), worst_status(statuses.values())
    if worst_status([worst, given := _status(report)]) != given:
        notes.append(
            f"A member's own verdict is {worst}, and goes for all members. Corrected for the tests "
            f"of all pairs, it is {given}."
        )
        report = report_of([*counts.values()], notes)
    return Combined(statuses=statuses, doubts=doubts, report=report)


def _status(report: Report) -> str:
    return str(report.to_json()["verdict"]["status"])


def _judge(report: Report, most: int) -> str:
    """Return the verdict on a member's own counts.

    Raises InputError unless they can be judged, by `most` tests: more of them would make the
    correction stricter for all members.
    """
    try:
        document = report.to_json()
        validate(document)
    except Exception as error:  # a stranger's rows may hold numbers too large to compute with
        raise InputError(f"they cannot be judged ({type(error).__name__})") from None
    if len(tests := document["verdict"]["tests"]) > most:
        raise InputError(f"they make {len(tests):,} tests, not {most:,}")
    return str(document["verdict"]["status"])


def _read_counts(
    name: str, result: Mapping[str, Any], attack: str, others: Collection[str]
) -> Result:
    """Return what a member counted.

    Raises InputError unless every row is of its own strings, and of what another member drew of
    them, and comes once; and if another member lacks rows.
    """
    rows: dict[object, Measurement] = {}
    for number, table in enumerate(result["rows"], 1):
        row: Measurement = _record(Measurement, table, f"row {number}")
        scope = row.scope
        if not all(isinstance(value, str) for value in scope.values()) or scope.keys() - SCOPE:
            raise InputError(f"row {number} has another form")
        whose = {"kind": row.kind, "plugin": row.plugin, "victim": scope.get("victim")}
        if (
            whose != {"kind": "extraction", "plugin": attack, "victim": name}
            or scope.get("attacker") not in others
            or scope.get("member", scope["attacker"]) not in others
        ):
            raise InputError(f"row {number} is not of {name}'s strings and another member")
        if rows.setdefault((row.metric, frozenset(scope.items())), row) is not row:
            raise InputError(f"row {number} came before")
    if lacking := sorted({*others} - {row.scope["attacker"] for row in rows.values()}):
        raise InputError(f"they lack {', '.join(lacking)}")
    return Result(
        measurements=tuple(rows.values()),
        findings=tuple(_finding(one, name, attack) for one in result["findings"]),
        limits=tuple(f"{name}: {limit}" for limit in result["limits"]),
    )


def _no_counts(name: str, why: str, attack: str, others: Collection[str]) -> Result:
    """Return the rows that say that what each other member drew of `name` was not measured."""
    scope = {"source": NEW, "set": EXCLUSIVE, "victim": name}
    return Result(
        measurements=tuple(
            Measurement.missing(
                f"{name}: {why}",
                kind="extraction",
                plugin=attack,
                metric="coverage",
                scope={**scope, "attacker": other},
            )
            for other in sorted(others)
        )
    )


def _finding(table: Any, member: str, attack: str) -> Finding:
    """Return a member's finding, whose strings it keeps to itself."""
    if not isinstance(table, dict):
        raise InputError("a finding has another form")
    named = {"id": f"{member}-{table.get('id')}", "measurement": f"{attack} coverage"}
    finding: Finding = _record(Finding, {**table, **named, "evidence": {}}, "a finding")
    return finding


def _record(kind: Any, table: Mapping[str, Any], name: str) -> Any:
    try:
        return build(kind, table, "row")
    except Exception:  # whatever a stranger's table holds
        raise InputError(f"{name} has another form") from None


def _check_own(folder: Path, results: Mapping[str, Message]) -> None:
    """Raise InputError if this member's result in circulation is not that of its own report."""
    path = folder / exchange.PRIVATE / REPORT
    if not path.exists():
        return
    name = open_member(folder).name
    if name in results and results[name].body["report"] != sha256(path):
        raise InputError(f"The result of {name} does not belong to {path}.")
