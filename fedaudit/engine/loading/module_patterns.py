"""Module patterns of an untrusted adapter, matched first in a process that can be killed.

PEFT matches these regular expressions against the names of a model's modules, in this process and
without a time limit, and a single pattern can take forever. So they are matched beforehand in a
sandboxed process, in the same way as PEFT does.
"""

import re
from collections.abc import Generator, Iterable, Iterator
from functools import lru_cache
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.system import sandbox

SECONDS = 5.0
"""The time limit for all patterns of an adapter; ordinary patterns take milliseconds."""

MAX_UNTIMED_PATTERNS = 256
SHOWN_CHARS = 60
TRIAL = "fedaudit.engine.loading.module_patterns.match_patterns"
_PLAIN = re.compile(r"\^?[\w.-]*\$?")


def old_key(key: str) -> str:
    """Return the regex that PEFT before 0.15 made of a key of rank_pattern or alpha_pattern."""
    return rf".*\.{key}$"


def check(config: Any, names: Iterable[str]) -> None:
    """Raise InputError if the patterns of a LoRA configuration take too much time or memory.

    An invalid regular expression is left to PEFT, which refuses it.
    """
    patterns = tuple(_patterns(config))
    if len(patterns) <= MAX_UNTIMED_PATTERNS and all(
        _PLAIN.fullmatch(plain) for _, plain, _ in patterns
    ):
        return
    if problem := _find_problem(patterns, tuple(sorted({"", *names})), SECONDS):
        raise InputError(problem)


@lru_cache(maxsize=64)
def _find_problem(
    patterns: tuple[tuple[str, str, str], ...], names: tuple[str, ...], seconds: float
) -> str:
    """Return what is wrong with matching patterns in a sandboxed process; empty for nothing."""
    try:
        sandbox.attempt(TRIAL, [patterns, names], seconds=seconds)
    except sandbox.TrialEnded as error:
        return (
            f"The adapter's configuration has a pattern of modules, {error.step!r}, that cannot be "
            f"matched here: {error.reason}. Have the modules named."
        )
    return ""


def match_patterns(payload: Any) -> Generator[str, None, None]:
    """Match patterns against names; yield the beginning of each pattern before it is matched."""
    patterns, names = payload
    for how, plain, regex in patterns:
        yield plain[:SHOWN_CHARS]
        try:
            matcher = getattr(re.compile(regex), how)
        except re.error:
            continue
        for name in names:
            matcher(name)


def _patterns(config: Any) -> Iterator[tuple[str, str, str]]:
    """Yield, for each pattern, the `re` method that PEFT uses, the pattern, and PEFT's regex."""
    for pattern in (config.target_modules, config.exclude_modules):
        if isinstance(pattern, str):
            yield "fullmatch", pattern, pattern
    above = config.layers_pattern or ()
    for pattern in [above] if isinstance(above, str) else above:
        yield "match", pattern, rf"(?:^|.*?\.){pattern}\.(?P<idx>\d+)\."
    for table in (config.rank_pattern or {}, config.alpha_pattern or {}):
        for pattern in table:
            yield "match", pattern, rf"(.*\.)?({pattern})$"
            if not _PLAIN.fullmatch(pattern):  # those of an older PEFT are compared with today's
                yield "match", pattern, old_key(pattern)
