"""The answer to one question: how far a report answers it, in words, and by which measurements."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Status = Literal["answered", "in part", "open"]


class ChecklistAnswer(NamedTuple):
    """A report's answer to one question; `rows` are the measurements that support the answer."""

    status: Status
    text: str
    rows: tuple[Mapping[str, Any], ...] = ()
    against: bool = False
    """Whether the answer speaks against the model although no judgement fails."""
