"""Trainings under defences as a part of an audit: their plan, and the report with their results."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.cli.audit_runner import watching
from fedaudit.cli.console import print_note, training_progress
from fedaudit.report.redaction import Redactor, user_key
from fedaudit.system.numbers import rough_duration
from fedaudit.system.outputs import REPORT, write_output

if TYPE_CHECKING:
    from fedaudit.audit.defenses.plan import DefensePlan
    from fedaudit.audit.session import AuditSession


def defense_lines(plan: "DefensePlan") -> Iterator[str]:
    """Yield what would be trained under which defences, what that takes, and what is left out."""
    names = ", ".join(defense.name for defense in plan.applicable)
    seeds = ", ".join(map(str, plan.seeds))
    yield ""
    yield "Defences"
    yield (
        f"  {plan.trainings} trainings of {plan.config.rounds} rounds with {plan.config.clients} "
        f"clients: none, {names}; each with the seeds {seeds}"
    )
    if plan.earlier is None:
        yield "  how long a training takes is not known: the federation's folder has no report"
    else:
        total = rough_duration(plan.earlier * plan.trainings)
        yield (
            f"  about {rough_duration(plan.earlier)} a training, as the audited federation took: "
            f"about {total} in all; a defence may take several times as long"
        )
    if plan.size:
        megabytes = plan.size * plan.trainings / 1e6
        yield f"  about {megabytes:,.0f} MB of trained federations are kept in the output folder"
    pair = plan.pairs[0]
    attacks = ", ".join(pair.request.attacks)
    if len(plan.pairs) > 1:
        yield f"  the client that lost most in the audit is attacked each time: {attacks}"
    else:
        yield f"  {pair.attacker} attacks {pair.victim} each time: {attacks}"
    for candidate in plan.candidates:
        if candidate.reason:
            yield f"  {candidate.name} is left out: {candidate.reason.rstrip('.')}"


def finished_report(session: "AuditSession") -> dict[str, Any] | None:
    """Return the report of this very audit in its folder, if it was finished there.

    One whose verdict does not follow from its measurements is none.
    """
    from fedaudit.report.document import read
    from fedaudit.report.verdict.recheck import recheck

    path = session.folder / "report.json"
    if not path.exists():
        return None
    report = read(path)
    same = report["run"]["id"] == session.fingerprint.run
    return report if same and report["status"] == "success" and recheck(report).holds else None


def add_defenses(
    plan: "DefensePlan",
    report: Mapping[str, Any],
    folder: Path,
    *,
    copy: Path | None,
    quiet: bool,
) -> dict[str, Any]:
    """Run the trainings under defences that are missing; rewrite the report and return it."""
    from fedaudit.audit.defenses.study import run_defenses
    from fedaudit.audit.defenses.training import DefenseWatch
    from fedaudit.report import document
    from fedaudit.report.verdict.recheck import judged_rows

    print_note(f"The audit is in {folder / 'report.json'}; now the defences.", quiet=quiet)
    with training_progress(quiet) as listener, watching(quiet) as bar:
        watch = DefenseWatch(
            note=lambda line: print_note(line, quiet=quiet), training=listener, bar=bar
        )
        rows, _ = judged_rows(report)
        section = run_defenses(plan, rows, folder, Redactor(user_key()), watch)
    full_report = {**report, "defenses": document.to_plain(section, "defenses")}
    document.validate(full_report)
    for path in filter(None, (folder / "report.json", copy)):
        write_output(path, document.dumps(full_report), REPORT)
    return full_report
