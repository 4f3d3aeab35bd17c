"""The names of engines, as --engine gives them: "local", "ray:4", "vllm:2"."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from fedaudit.api.errors import UsageError, unknown_name_error

ANSWERING = ("local", "ray", "ray:N", "vllm", "vllm:N")
"""The engines that answer the questions of an audit."""
TRAINING = ("local", "ray", "ray:N", "flower", "flower:N")
"""The engines on which `simulate` trains."""
_NAME = re.compile("([a-z]+)(?::([1-9][0-9]{0,3}))?")


class EngineName(NamedTuple):
    """A kind of engine, and its N, 0 where the name has none."""

    kind: str
    number: int


def parse(engine: str, known: Sequence[str] = ANSWERING) -> EngineName:
    """Return the parts of an engine's name; raises UsageError for one that is not `known`."""
    match = _NAME.fullmatch(engine)
    if match and match[1] == "local" and match[2]:
        raise UsageError(
            f"There is no --engine {engine}: --engine ray:{match[2]} does this (in simulate, so "
            f"does --set workers={match[2]})."
        )
    if match is None or match[1] + (":N" if match[2] else "") not in known:
        raise unknown_name_error("engine", engine, known)
    return EngineName(match[1], int(match[2] or 0))
