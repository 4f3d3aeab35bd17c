"""What to do now, as far as the measurements support it."""

from collections.abc import Iterator
from typing import NamedTuple

from fedaudit.report.checklist import leaks
from fedaudit.report.checklist.measured import defence
from fedaudit.report.query import Row
from fedaudit.report.verdict.recheck import judgements, recheck

DISCLOSED = ("leak", "kind", "completion", "memorization", "canary", "gate")
"""Rules whose failure means that data comes out."""

RECOGNISED = ("inference", "membership", "membership limit")
MOST = 5


class RecommendedMeasure(NamedTuple):
    """One thing to do, and what in the report it follows from."""

    action: str
    basis: str


def measures(report: Row) -> list[RecommendedMeasure]:
    """Return what follows from a report's judgements, the most pressing first."""
    checked = recheck(report)
    if checked.brief:
        return [RecommendedMeasure("Do not rely on this report.", checked.told)]
    if report["status"] != "success":
        return [
            RecommendedMeasure(
                "Finish the audit (--resume).", "It did not end: numbers are missing."
            )
        ]
    return [*_of_failures(report), *_of_doubts(report), *_of_passes(report)]


def _of_failures(report: Row) -> Iterator[RecommendedMeasure]:
    failed = [one for one in judgements(report) if one["status"] == "fail"]
    rules = {one["rule"] for one in failed}
    grave = [one for one in failed if one["rule"] in (*DISCLOSED, *RECOGNISED)]
    if grave:
        yield RecommendedMeasure(f"Withhold{_release(report)}.", _reasons(grave))
        yield RecommendedMeasure(
            "Retrain with a defence, and audit again before release.", _of_defence(report)
        )
    if rules & set(DISCLOSED) and leaks.verified(report):
        yield RecommendedMeasure(
            "If this model has left the controller already, assess whether to notify (GDPR 33, 34)"
            " and what to tell the parties.",
            f"{_came_out(report)} Whether it has left, and who has asked it, no audit can tell.",
        )
    if "attribution" in rules:
        flags = [one for one in failed if one["rule"] == "attribution"]
        basis = f"{_reasons(flags)} A flag is evidence, no proof; the accused can check it."
        yield RecommendedMeasure("Hear the flagged client before anything else.", basis)
    if rules & {"epsilon"}:
        refuted = [one for one in failed if one["rule"] == "epsilon"]
        yield RecommendedMeasure("Withdraw the claim of differential privacy.", _reasons(refuted))


def _of_doubts(report: Row) -> Iterator[RecommendedMeasure]:
    doubts = [one for one in judgements(report) if one["status"] == "inconclusive"]
    if doubts:
        more = "" if report["verdict"]["status"] == "fail" else " Until then neither is shown."
        yield RecommendedMeasure("Measure what is not settled.", f"{_reasons(doubts)}{more}")
    missing = [one for one in report.get("coverage", ()) if one["status"] == "not_run"]
    if missing:
        told = (
            f"{one['class'].replace('_', ' ')} ({one['reason'].rstrip('.')})" for one in missing
        )
        yield RecommendedMeasure("Account for what was not run.", f"{'; '.join(told)}.")


def _of_passes(report: Row) -> Iterator[RecommendedMeasure]:
    if report["verdict"]["status"] == "pass":
        yield RecommendedMeasure(
            "Nothing has to be held back for what was measured.",
            "The verdict is pass, for these attacks on these records.",
        )


def _release(report: Row) -> str:
    declared = (report.get("context") or {}).get("release")
    return f" the release that was declared ({declared})" if declared else " the model"


def _of_defence(report: Row) -> str:
    if tried := report.get("defenses"):
        return f"Trained again under defences: {' '.join(tried['recommendations'])}"
    found = defence(report)
    if found.status == "open":
        return "No defence was measured here, so none can be named that would do."
    return f"Of a defence the report says: {found.text}"


def _came_out(report: Row) -> str:
    found = leaks.verified(report)
    kinds = sorted({one["label"] for one in found})
    grave = sorted({leaks.special(one["label"]) for one in found} - {""})
    told = f"{len(found):,} findings of the kinds {', '.join(kinds)} are proven"
    return f"{told}; with a protection of their own: {', '.join(grave) or 'none of them'}."


def _reasons(some: list[Row]) -> str:
    """Return one reason of each rule and attack, how many are like it, and how many are left."""
    groups: dict[tuple[str, str], list[str]] = {}
    for one in some:
        plugin = (one["measurement"] or {}).get("plugin", "")
        groups.setdefault((one["rule"], plugin), []).append(one["reason"])
    said = [
        reasons[0] + (f" ({len(reasons) - 1:,} more like it.)" if len(reasons) > 1 else "")
        for reasons in groups.values()
    ]
    more = len(said) - MOST
    return " ".join([*said[:MOST], *([f"And {more:,} more."] if more > 0 else [])])
