"""The answers that the run, its context and its coverage give."""

from fedaudit.report.checklist import leaks
from fedaudit.report.checklist.answer import ChecklistAnswer
from fedaudit.report.checklist.attackers import DECLARED, telling_rows, unmeasured
from fedaudit.report.query import Row
from fedaudit.report.verdict.recheck import stated_policy

NO_COVERAGE = "The report has no coverage: it is of one attack, not of `fedaudit audit`."
RESISTANCE = (
    "What was tried is evidence about these attacks only. It is no finding that the model holds no"
    " personal data, and none about what the law calls it."
)


def model(report: Row) -> ChecklistAnswer:
    """Answer which model exactly was audited."""
    target = report["target"]
    told = [f"Base {target['base'] or 'unknown'}: {_digest(target.get('base_sha256'))}."]
    if target["adapter"]:
        told.append(f"Adapter {target['adapter']}: {_digest(target['sha256'])}.")
    known = target["sha256"] and (target.get("base_sha256") or not target["adapter"])
    if not target["adapter"]:
        told = [f"Model {target['base'] or 'unknown'}: {_digest(target['sha256'])}."]
    if known:
        return ChecklistAnswer("answered", " ".join(told))
    return ChecklistAnswer("in part" if target["sha256"] else "open", " ".join(told))


def _digest(digest: str | None) -> str:
    return f"SHA-256 {digest}" if digest else "no digest"


def release(report: Row) -> ChecklistAnswer:
    """Answer to whom the model is released, as somebody declared it."""
    context = report.get("context") or {}
    if not context.get("release"):
        return ChecklistAnswer("open", "Nobody declared it: fedaudit audit --release.")
    by = context["declared_by"]
    told = f"Declared: {context['release']}, by {by or 'somebody who is not named'}."
    return ChecklistAnswer("answered" if by else "in part", told)


def attacks(report: Row) -> ChecklistAnswer:
    """Answer which of the six classes of attacks were run, and why not the others."""
    if "coverage" not in report:
        return ChecklistAnswer("open", NO_COVERAGE)
    told = []
    for one in report["coverage"]:
        name = one["class"].replace("_", " ")
        by = f"by {', '.join(one['by'])}" if one["by"] else one["reason"].rstrip(".")
        told.append(f"{name}: {one['status'].replace('_', ' ')}" + (f", {by}" if by else ""))
    return ChecklistAnswer("answered", "; ".join(told) + ".")


def attackers(report: Row) -> ChecklistAnswer:
    """Answer who the attacker is, with what access and knowledge."""
    rows = telling_rows(report)
    if not rows:
        return ChecklistAnswer("open", "Nothing was measured from any attacker's position.")
    missing = unmeasured(report)
    wanted = (report.get("context") or {}).get("positions") or list(DECLARED)
    left = [DECLARED[one] for one in wanted if DECLARED[one] in missing]
    told = "The table of attackers says it of each attack."
    if missing:
        told += f" Not measured: {', '.join(missing)}."
    return ChecklistAnswer("in part" if left else "answered", told, tuple(rows))


def repeatable(report: Row) -> ChecklistAnswer:
    """Answer whether the tests were frequent, independent and can be repeated."""
    run, versions = report["run"], report["environment"]["versions"]
    seeds = ", ".join(f"{name} {value}" for name, value in report["seeds"].items()) or "none"
    return ChecklistAnswer(
        "in part",
        f"Run {run['id']} of fedaudit {versions.get('fedaudit', 'of an unknown version')}, "
        f"{run['started']} to {run['finished'] or 'no end'}; seeds: {seeds}. The options are in"
        " run.config, so that it can be repeated. One run: how far another seed differs, and who"
        " ran it, it does not say.",
    )


def zero(report: Row) -> ChecklistAnswer:
    """Answer what nothing found would mean: bounds, and the leak that would have been seen."""
    seen = report["verdict"].get("detectable")
    none = [row for row in telling_rows(report) if row["hits"] == 0 and row["high"] is not None]
    told = [f"{row['plugin']}: {leaks.result(row)}." for row in none]
    if seen is None:
        told.append("The report does not say how small a leak would have been seen.")
        return ChecklistAnswer("in part" if none else "open", " ".join(told), tuple(none))
    power = stated_policy(report).power
    said = f"A leak of {seen:.1%} of the targets would have been seen with {power:.0%} probability."
    told.append(said if seen < 1 else "Too little was looked for to see any leak.")
    return ChecklistAnswer("answered" if seen < 1 else "in part", " ".join(told), tuple(none))


def remains(report: Row) -> ChecklistAnswer:
    """Answer what remains: what was not measured, and what no result of tests can be."""
    missing = [
        one["class"].replace("_", " ")
        for one in report.get("coverage", ())
        if one["status"] == "not_run"
    ]
    told = f"Not run: {', '.join(missing)}. " if missing else ""
    limits = len(report["limits"])
    return ChecklistAnswer("answered", f"{told}{limits:,} limits are listed below. {RESISTANCE}")
