"""Whether a report's verdict is the one that follows from its own measurements."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedaudit.api.records import Finding, Measurement
from fedaudit.report.verdict.criteria import DEFAULT, Policy, policy_of
from fedaudit.report.verdict.policy import RULE, judge, verdict

Row = Mapping[str, Any]

PARTS = ("reasons", "level", "tests", "detectable")
"""What a verdict has beside its status that follows from the measurements."""


@dataclass(frozen=True, slots=True)
class RecheckedVerdict:
    """What came of judging a report's measurements again."""

    holds: bool | None
    """Whether the verdict follows from them; None where they cannot be judged."""
    told: str = ""
    """What a reader must know before the verdict; empty where all is as it should be."""
    brief: str = ""
    """The same in a few words behind the verdict."""


FINE = RecheckedVerdict(True)


def recheck(report: Row) -> RecheckedVerdict:
    """Judge a valid report's measurements and findings by today's rule; compare the verdict.

    By the rule that the report names, reasons and tests must be the same too. A report without a
    rule, or with another one, is of another version: there the status alone is compared.
    """
    stated = report["verdict"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = verdict(*judged_rows(report), stated_policy(report), explained=True)
    except Exception as error:  # a stranger's numbers may be beyond any arithmetic
        told = f"The measurements of this report cannot be judged ({type(error).__name__})"
        return RecheckedVerdict(None, f"{told}: its verdict is not checked.", "not checked")
    if stated["status"] != found["status"]:
        return RecheckedVerdict(
            False, _contradicted(stated, found), "its own measurements contradict it"
        )
    if stated.get("rule") != RULE:
        return RecheckedVerdict(True, f"{_named(stated)}; by today's the status is the same.")
    altered = [] if report["status"] != "success" else _altered(stated, found)
    if altered:
        told = f"the {' and '.join(altered)} of its verdict do not follow from its measurements."
        return RecheckedVerdict(
            False, f"Do not rely on this report: {told}", "its measurements differ"
        )
    return FINE


def stated_policy(report: Row) -> Policy:
    """Return the policy that a report's verdict was made under; InputError for one that is none."""
    table = report["verdict"].get("policy")
    return DEFAULT if table is None else policy_of(table, "verdict.policy")


def judgements(report: Row) -> list[Row]:
    """Return all judgements of a report as it holds them, or made again where it holds none."""
    stated = report["verdict"].get("judgements")
    if stated is not None:
        return list(stated)
    found = judge(*judged_rows(report), stated_policy(report)).judgements
    return [one.table() for one in found]


def judged_rows(report: Row) -> tuple[list[Measurement], list[Finding]]:
    """Return the measurements and findings that a report's verdict is about, as records."""
    findings = [{k: v for k, v in row.items() if k != "category"} for row in report["findings"]]
    return [Measurement(**row) for row in report["measurements"]], [Finding(**r) for r in findings]


def _contradicted(stated: Row, found: Row) -> str:
    said, given = stated["status"], found["status"]
    if stated.get("rule") == RULE:
        return (
            "Do not rely on this report: its verdict does not follow from its own measurements. "
            f"It says {said}, they give {given}."
        )
    return (
        f"Do not rely on this verdict: it says {said}, but by today's rule the report's own "
        f"measurements give {given}. {_named(stated)}, or somebody has changed it."
    )


def _named(stated: Row) -> str:
    """Return whose rule a verdict is, where it is not today's."""
    rule = stated.get("rule")
    if rule is None:
        return "The verdict names no rule: an earlier fedaudit judged by another one"
    return f"The verdict is by rule {rule} of another fedaudit, this one judges by rule {RULE}"


def _altered(stated: Row, found: Row) -> list[str]:
    parts = (*PARTS, "judgements") if "policy" in stated else PARTS
    return [part for part in parts if not _same(stated.get(part), found[part])]


def _same(one: object, other: object) -> bool:
    """Tell whether two parts of a verdict are equal, numbers but for the last digits."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-300)
    return one == other
