"""Whether a report's verdict is the one that follows from its own measurements."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fedaudit.api.kind import Row
from fedaudit.api.policy import Policy
from fedaudit.api.records import Finding, Measurement
from fedaudit.report.kinds.registry import unknown_kinds
from fedaudit.report.verdict.attribution import unfounded_accusations
from fedaudit.report.verdict.criteria import DEFAULT, policy_of
from fedaudit.report.verdict.policy import RULE, judge, verdict, worst_status

UNRELIABLE = "Do not rely on this report"
COMPARED_KEYS = ("reasons", "level", "tests", "detectable")
"""The parts of a verdict besides its status that follow from the measurements."""


@dataclass(frozen=True, slots=True)
class RecheckedVerdict:
    """The result of judging a report's measurements again."""

    holds: bool | None
    """Whether the verdict follows from the measurements; None if they cannot be judged."""
    message: str = ""
    """The doubt that a reader must know before the verdict; empty if there is none."""
    brief: str = ""
    """The same doubt in a few words, shown after the verdict."""


FINE = RecheckedVerdict(True)


def recheck(report: Row) -> RecheckedVerdict:
    """Judge a valid report's measurements and findings by today's rule; compare the verdict.

    If the report names today's rule, reasons and tests must be the same too, and so must judgements
    if the report holds them or a policy. No finding may accuse a client that the measurements do
    not flag. A report with another rule or none is from another version of fedaudit: only its
    status is compared, also with the worst of its own judgements.
    """
    stated = report["verdict"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            recomputed = verdict(*judged_rows(report), stated_policy(report), explained=True)
    except Exception as error:  # a stranger's report may hold numbers too large to compute with
        message = f"its measurements cannot be judged ({type(error).__name__}), so its verdict is"
        return RecheckedVerdict(None, f"{UNRELIABLE}: {message} not checked.", "not checked")
    checked = _compare(report, stated, recomputed)
    kinds = " or ".join(unknown_kinds(report))
    # A kind that is not judged here cannot make a fail into anything else.
    if checked.holds is False and kinds and recomputed["status"] != "fail":
        message = f"No installed plugin judges its rows of the kind {kinds}: the verdict is"
        return RecheckedVerdict(None, f"{message} not checked.", "not checked")
    return checked


def _compare(report: Row, stated: Row, recomputed: Row) -> RecheckedVerdict:
    if stated["status"] != recomputed["status"]:
        return RecheckedVerdict(
            False, _contradiction_text(stated, recomputed), "its own measurements contradict it"
        )
    if "judgements" in stated and stated["status"] != _stated_worst(stated):
        message = f"its verdict says {stated['status']}, its judgements {_stated_worst(stated)}."
        return RecheckedVerdict(False, f"{UNRELIABLE}: {message}", "its judgements contradict it")
    if unfounded := unfounded_accusations(*judged_rows(report)):
        message = (
            f"{len(unfounded):,} of its findings accuse clients otherwise than its measurements do."
        )
        return RecheckedVerdict(False, f"{UNRELIABLE}: {message}", "its findings differ")
    if stated.get("rule") != RULE:
        same = "by today's the status is the same; nothing else of the verdict was compared"
        return RecheckedVerdict(True, f"{_rule_text(stated)}; {same}.")
    return _recheck_parts(report, stated, recomputed)


def _recheck_parts(report: Row, stated: Row, recomputed: Row) -> RecheckedVerdict:
    """Compare what a verdict by today's rule says beside its status."""
    keys = _compared_keys(report)
    if altered := [key for key in keys if not _same(stated.get(key), recomputed[key])]:
        message = f"the {' and '.join(altered)} of its verdict do not follow from its measurements."
        return RecheckedVerdict(False, f"{UNRELIABLE}: {message}", "its measurements differ")
    return FINE


def stated_policy(report: Row) -> Policy:
    """Return the policy of a report's verdict; raises InputError for an invalid one."""
    table = report["verdict"].get("policy")
    return DEFAULT if table is None else policy_of(table, "verdict.policy")


class JudgedReport(dict[str, Any]):
    """A report whose judgements are made at most once, for pages that need them many times."""

    @cached_property
    def judgements(self) -> list[Row]:
        """All judgements of the report."""
        return judgements(dict(self))


def judgements(report: Row) -> list[Row]:
    """Return all judgements that a report holds, or made anew if it holds none."""
    if isinstance(report, JudgedReport):
        return report.judgements
    stated = report["verdict"].get("judgements")
    if stated is not None:
        return list(stated)
    recomputed = judge(*judged_rows(report), stated_policy(report)).judgements
    return [j.table() for j in recomputed]


def judged_rows(report: Row) -> tuple[list[Measurement], list[Finding]]:
    """Return the measurements and findings that a report's verdict is about, as records."""
    findings = [{k: v for k, v in row.items() if k != "category"} for row in report["findings"]]
    return [Measurement(**row) for row in report["measurements"]], [Finding(**r) for r in findings]


def _stated_worst(stated: Row) -> str:
    return worst_status(judgement["status"] for judgement in stated["judgements"])


def _contradiction_text(stated: Row, recomputed: Row) -> str:
    status, recomputed_status = stated["status"], recomputed["status"]
    if stated.get("rule") == RULE:
        return (
            f"{UNRELIABLE}: its verdict does not follow from its own measurements. "
            f"It says {status}, they give {recomputed_status}."
        )
    return (
        f"Do not rely on this verdict: it says {status}, but by today's rule the report's own "
        f"measurements give {recomputed_status}. {_rule_text(stated)}, or it was changed."
    )


def _rule_text(stated: Row) -> str:
    """Return which rule a verdict follows, where it is not today's."""
    if stated.get("rule") is None:
        return f"The verdict names no rule, and this fedaudit judges by rule {RULE}"
    return f"The verdict is by rule {stated['rule']}, and this fedaudit judges by rule {RULE}"


def _compared_keys(report: Row) -> list[str]:
    stated = report["verdict"]
    has_judgements = bool({"policy", "judgements"} & stated.keys())
    keys = [*COMPARED_KEYS, *(["judgements"] if has_judgements else [])]
    if report["status"] == "success" or report["measurements"]:
        return keys
    # An audit that was stopped has no numbers: its one reason is that, and it leaves out the rest.
    return [key for key in keys if key in stated and key != "reasons"]


def _same(left: object, right: object) -> bool:
    """Tell whether two parts of a verdict are equal, numbers up to rounding."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, int | float) and isinstance(right, int | float):
        return math.isclose(left, right, rel_tol=1e-6, abs_tol=1e-300)
    return left == right
