"""A statement of a report, and whether it holds when it is checked again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

State = Literal["same", "differs", "not at hand", "not checked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A statement of a report, and the result of checking it."""

    state: State
    kind: str
    """For example "verdict", "adapter" or "data"."""
    name: str
    why: str = ""
    rests: str = ""
    """The sentence of the report that rests on this statement, where one does."""
    digest: Mapping[str, str] = field(default_factory=dict)
    """The digest that was recomputed or that the report states, under its in-toto name."""

    def __str__(self) -> str:
        text = f"{self.state}: {self.kind} {self.name}" + (f" ({self.why})" if self.why else "")
        return f'{text}; "{self.rests}" rests on it' if self.rests else text


def verdict(report: Mapping[str, Any]) -> Check:
    """Judge a report's measurements again and compare the verdict.

    A report that cannot be judged counts as different: otherwise one forged row would get any
    verdict past this check.
    """
    from fedaudit.report.verdict.recheck import recheck

    result = recheck(report)
    state: State = "same" if result.holds else "differs"
    name = report["verdict"]["status"]
    return Check(state=state, kind="verdict", name=name, why=result.message.rstrip("."))
