"""What a report says of its policy and of the attacks that ran, checked against its content."""

from collections import Counter
from collections.abc import Iterator, Sequence

from fedaudit.api.errors import FedauditError
from fedaudit.api.policy import Policy
from fedaudit.api.records import Measurement
from fedaudit.assessment.context import ReleaseContext
from fedaudit.assessment.coverage import coverage
from fedaudit.assessment.policy_file import built_in_policy
from fedaudit.audit.verification.report import Check, Report
from fedaudit.report.verdict.criteria import same_limits
from fedaudit.report.verdict.policy import RULE
from fedaudit.report.verdict.recheck import judged_rows, stated_policy


def verify_assessment(report: Report) -> Iterator[Check]:
    """Check the name of a report's policy, and the classes of attacks that it says were run.

    Only reports of today's rule are checked: another version may have had other limits or classes.
    """
    if report["verdict"].get("rule") != RULE:
        return
    try:
        policy, (measurements, _) = stated_policy(report), judged_rows(report)
    except (FedauditError, TypeError):  # the check of the verdict reports this
        return
    if "policy" in report["verdict"]:
        yield from _policy(policy)
    yield from _coverage(report.get("coverage") or [], measurements)


def _policy(policy: Policy) -> Iterator[Check]:
    """Yield a check if the policy has the name of a built-in one, whose limits everybody knows."""
    built_in = built_in_policy(policy)
    if built_in is None:
        return
    if same_limits(policy, built_in):
        yield Check(state="same", kind="policy", name=policy.name)
    else:
        why = f"its limits are not those of fedaudit's policy {built_in.name}"
        yield Check(state="differs", kind="policy", name=policy.name, why=why)


def _coverage(stated: Sequence[Report], measurements: Sequence[Measurement]) -> Iterator[Check]:
    """Yield a check of each class of attacks that ran, or should have by the measurements."""
    if not stated:
        return
    stated_rows = {row["class"]: row for row in stated}
    counts = Counter(row["class"] for row in stated)
    for row in coverage(measurements, {}, ReleaseContext(), updates=False):
        stated_row = stated_rows.get(row["class"], {})
        if counts[row["class"]] > 1:
            why = "the report tells of it more than once"
            yield Check(state="differs", kind="attacks", name=row["class"], why=why)
            continue
        if _runs(row) is None and _runs(stated_row) is None:
            continue
        if _runs(row) == _runs(stated_row):
            yield Check(state="same", kind="attacks", name=row["class"])
        else:
            why = "its measurements are of other attacks, or of another number"
            yield Check(state="differs", kind="attacks", name=row["class"], why=why)


def _runs(row: Report) -> tuple[list[str], int | None] | None:
    """Return the attacks that a class was run by and its largest n; None where none was."""
    return (list(row["by"]), row["n"]) if row and row["status"] == "run" else None
