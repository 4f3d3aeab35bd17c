"""The answers that the run, its context and its coverage give."""

from fedaudit.api.kind import Answer
from fedaudit.report.checklist.answer import result
from fedaudit.report.checklist.attackers import DECLARED, headline_totals, unmeasured
from fedaudit.report.query import Row
from fedaudit.report.tables.evidence import detectable_text

NO_COVERAGE = "The report has no coverage: it is of one attack, not of `fedaudit audit`."
FOUND = "The verdict is fail: how small a leak would have been missed is not the question."
RESISTANCE = (
    "What was tried is evidence about these attacks only. It is not a finding that the model "
    "holds no"
    " personal data, and none about what the law calls it."
)


def model(report: Row) -> Answer:
    """Answer which model exactly was audited."""
    target = report["target"]
    texts = [f"Base {target['base'] or 'unknown'}: {_digest(target.get('base_sha256'))}."]
    if target["adapter"]:
        texts.append(f"Adapter {target['adapter']}: {_digest(target['sha256'])}.")
    has_digests = target["sha256"] and (target.get("base_sha256") or not target["adapter"])
    if not target["adapter"]:
        texts = [f"Model {target['base'] or 'unknown'}: {_digest(target['sha256'])}."]
    if has_digests:
        return Answer("answered", " ".join(texts))
    return Answer("in part" if target["sha256"] else "open", " ".join(texts))


def _digest(digest: str | None) -> str:
    return f"SHA-256 {digest}" if digest else "no digest"


def release(report: Row) -> Answer:
    """Answer to whom the model is released, as declared by a person."""
    context = report.get("context") or {}
    if not context.get("release"):
        return Answer("open", "It was not declared: fedaudit audit --release.")
    declared_by = context["declared_by"]
    text = f"Declared: {context['release']}, by {declared_by or 'someone who is not named'}."
    return Answer("answered" if declared_by else "in part", text)


def attacks(report: Row) -> Answer:
    """Answer which of the six classes of attacks were run, and why not the others."""
    if "coverage" not in report:
        return Answer("open", NO_COVERAGE)
    texts = []
    for entry in report["coverage"]:
        name = entry["class"].replace("_", " ")
        detail = f"by {', '.join(entry['by'])}" if entry["by"] else entry["reason"].rstrip(".")
        texts.append(
            f"{name}: {entry['status'].replace('_', ' ')}" + (f", {detail}" if detail else "")
        )
    return Answer("answered", "; ".join(texts) + ".")


def attackers(report: Row) -> Answer:
    """Answer who the attacker is, with what access and knowledge."""
    rows = headline_totals(report)
    if not rows:
        return Answer("open", "Nothing was measured from any attacker's position.")
    missing = unmeasured(report)
    positions = (report.get("context") or {}).get("positions") or list(DECLARED)
    gaps = [DECLARED[p] for p in positions if DECLARED[p] in missing]
    text = "The table of attackers says it of each attack."
    if missing:
        text += f" Not measured: {', '.join(missing)}."
    return Answer("in part" if gaps else "answered", text, tuple(rows))


def repeatable(report: Row) -> Answer:
    """Answer whether the tests were frequent, independent and can be repeated."""
    run, versions = report["run"], report["environment"]["versions"]
    seeds = ", ".join(f"{name} {value}" for name, value in report["seeds"].items()) or "none"
    return Answer(
        "in part",
        f"Run {run['id']} of fedaudit {versions.get('fedaudit', 'of an unknown version')}, "
        f"{run['started']} to {run['finished'] or 'no end'}; seeds: {seeds}. The options are in"
        " run.config, so that it can be repeated. One run: how far another seed differs, and who"
        " ran it, it does not say.",
    )


def zero(report: Row) -> Answer:
    """Answer what finding nothing means: upper bounds, and the smallest leak that would be seen."""
    rate = report["verdict"].get("detectable")
    none = [row for row in headline_totals(report) if row["hits"] == 0 and row["high"] is not None]
    texts = [f"{row['plugin']}: {result(row)}." for row in none]
    if rate is None:
        texts.append("The report does not say how small a leak would have been seen.")
        return Answer("in part" if none else "open", " ".join(texts), tuple(none))
    texts.append(detectable_text(report) or FOUND)
    answered = rate < 1 or texts[-1] == FOUND
    return Answer("answered" if answered else "in part", " ".join(texts), tuple(none))


def remains(report: Row) -> Answer:
    """Answer what remains: what was not measured, and what no test can show."""
    missing = [
        entry["class"].replace("_", " ")
        for entry in report.get("coverage", ())
        if entry["status"] == "not_run"
    ]
    text = f"Not run: {', '.join(missing)}. " if missing else ""
    limits = len(report["limits"])
    return Answer("answered", f"{text}{limits:,} limits are listed below. {RESISTANCE}")
