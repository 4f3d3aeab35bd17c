"""What to do now, as far as the measurements support it."""

from collections.abc import Iterator
from typing import NamedTuple

from fedaudit.report.checklist import leaks
from fedaudit.report.checklist.questions import defence
from fedaudit.report.kinds.registry import kinds_of
from fedaudit.report.number_format import first_of
from fedaudit.report.query import Row, group_by
from fedaudit.report.verdict.recheck import judgements, recheck

DISCLOSED = ("leak", "kind", "completion", "gate")
"""Rules whose failure means that the model gives data away."""

RECOGNISED = ("inference",)
MAX_TEXTS = 5


class RecommendedMeasure(NamedTuple):
    """One recommended step, and the part of the report from which it follows."""

    action: str
    basis: str


def measures(report: Row) -> list[RecommendedMeasure]:
    """Return what follows from a report's judgements, the most pressing first."""
    checked = recheck(report)
    if checked.brief:
        return [RecommendedMeasure("Do not rely on this report.", checked.message)]
    if report["status"] != "success":
        return [
            RecommendedMeasure(
                "Finish the audit (--resume).", "It did not end: numbers are missing."
            )
        ]
    return [*_of_failures(report), *_of_doubts(report), *_of_passes(report)]


def _of_failures(report: Row) -> Iterator[RecommendedMeasure]:
    failed = [j for j in judgements(report) if j["status"] == "fail"]
    rules = {j["rule"] for j in failed}
    disclosed = {*DISCLOSED, *(rule for k in kinds_of(report) if k.discloses for rule in k.rules)}
    told = {rule for k in kinds_of(report) if k.discloses is False for rule in k.rules}
    grave = [j for j in failed if j["rule"] in disclosed | told | {*RECOGNISED}]
    if grave:
        declared = (report.get("context") or {}).get("release")
        what = f"release that was declared ({declared})" if declared else "model"
        yield RecommendedMeasure(f"Withhold the {what}.", _reasons(grave))
        yield RecommendedMeasure(
            "Retrain with a defence, and audit again before release.", _of_defence(report)
        )
    if rules & disclosed and leaks.verified(report):
        yield RecommendedMeasure(
            "If this model has left the controller already, assess whether to notify (GDPR 33, 34)"
            " and what to tell the parties.",
            f"{_came_out(report)} Whether it has left, and who has asked it, no audit can tell.",
        )
    if "attribution" in rules:
        flags = [j for j in failed if j["rule"] == "attribution"]
        basis = f"{_reasons(flags)} A flag is evidence, no proof; the accused can check it."
        yield RecommendedMeasure("Hear the flagged client before anything else.", basis)
    if rules & {"epsilon"}:
        refuted = [j for j in failed if j["rule"] == "epsilon"]
        yield RecommendedMeasure("Withdraw the claim of differential privacy.", _reasons(refuted))


def _of_doubts(report: Row) -> Iterator[RecommendedMeasure]:
    doubts = [j for j in judgements(report) if j["status"] == "inconclusive"]
    if doubts:
        caveat = "" if report["verdict"]["status"] == "fail" else " Until then neither is shown."
        yield RecommendedMeasure("Measure what is not settled.", f"{_reasons(doubts)}{caveat}")
    missing = [entry for entry in report.get("coverage", ()) if entry["status"] == "not_run"]
    if missing:
        texts = (
            f"{entry['class'].replace('_', ' ')} ({entry['reason'].rstrip('.')})"
            for entry in missing
        )
        yield RecommendedMeasure("Account for what was not run.", f"{'; '.join(texts)}.")


def _of_passes(report: Row) -> Iterator[RecommendedMeasure]:
    if report["verdict"]["status"] == "pass":
        yield RecommendedMeasure(
            "Nothing has to be held back for what was measured.",
            "The verdict is pass, for these attacks on these records.",
        )


def _of_defence(report: Row) -> str:
    if defenses := report.get("defenses"):
        return f"Trained again under defences: {' '.join(defenses['recommendations'])}"
    answer = defence(report)
    if answer.status == "open":
        return "No defence was measured here, so none can be named that would do."
    return f"Of a defence the report says: {answer.text}"


def _came_out(report: Row) -> str:
    findings = leaks.verified(report)
    labels = {f["label"] for f in findings}
    grave = sorted({leaks.special(label) for label in labels} - {""})
    text = f"{len(findings):,} findings of the kinds {', '.join(sorted(labels))} are verified"
    passages = labels & {*leaks.PASSAGES}
    if grave or labels - passages:
        strings = "none of the strings" if passages else "none of them"
        text += f"; with a protection of their own: {', '.join(grave) or strings}"
    return f"{text}; passages were not searched for such kinds." if passages else f"{text}."


def _reasons(selected: list[Row]) -> str:
    """Return one reason per rule and attack, the number of similar ones, and how many are left."""
    groups = group_by(selected, lambda j: (j["rule"], (j["measurement"] or {}).get("plugin", "")))
    texts = [
        group[0]["reason"] + (f" ({len(group) - 1:,} more like it.)" if len(group) > 1 else "")
        for group in groups.values()
    ]
    return " ".join(first_of(texts, MAX_TEXTS, "And {:,} more."))
