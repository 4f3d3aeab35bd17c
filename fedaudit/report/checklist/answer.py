"""The answer to one question: how far a report answers it, in words, and by which measurements."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Status = Literal["answered", "in part", "open"]


class ChecklistAnswer(NamedTuple):
    """What a report says to a question; `rows` are the measurements that it rests on."""

    status: Status
    text: str
    rows: tuple[Mapping[str, Any], ...] = ()
    against: bool = False
    """Whether it speaks against the model, though no judgement does."""
