"""Regular expressions of an untrusted adapter, tried in a process that can be killed.

PEFT matches them against the names of a model's modules, in this process and without a time limit:
one pattern can take forever. So they are matched beforehand, as PEFT matches them.
"""

import re
from collections.abc import Generator, Iterable, Iterator
from functools import lru_cache
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.system import sandbox

SECONDS = 5.0
"""How long all patterns of an adapter may take; those that trainers write take milliseconds."""

MAX_UNTIMED_PATTERNS = 256
SHOWN_CHARS = 60
TRIAL = "fedaudit.engine.loading.module_patterns.match_patterns"
_PLAIN = re.compile(r"\^?[\w.-]*\$?")


def check(config: Any, names: Iterable[str]) -> None:
    """Raise InputError where the patterns of a LoRA configuration take too long or too much.

    One that is no regular expression is left to PEFT, which refuses it.
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
    """Match patterns against names in a process with limits; return what is wrong with them."""
    try:
        sandbox.attempt(TRIAL, [patterns, names], seconds=seconds)
    except sandbox.TrialEnded as error:
        return (
            f"The adapter's configuration has a pattern of modules, {error.step!r}, that cannot be "
            f"matched here: {error.reason}. Have the modules named."
        )
    return ""


def match_patterns(payload: Any) -> Generator[str, None, None]:
    """Match patterns against names; yields the beginning of each pattern."""
    patterns, names = payload
    for how, plain, regex in patterns:
        yield plain[:SHOWN_CHARS]
        matcher = getattr(re.compile(regex), how)
        for name in names:
            matcher(name)


def _patterns(config: Any) -> Iterator[tuple[str, str, str]]:
    """Yield how PEFT matches each pattern, the pattern itself, and what it makes of it."""
    for pattern in (config.target_modules, config.exclude_modules):
        if isinstance(pattern, str):
            yield "fullmatch", pattern, pattern
    above = config.layers_pattern or ()
    for pattern in [above] if isinstance(above, str) else above:
        yield "match", pattern, rf"(?:^|.*?\.){pattern}\.(?P<idx>\d+)\."
    for table in (config.rank_pattern or {}, config.alpha_pattern or {}):
        for pattern in table:
            yield "match", pattern, rf"(.*\.)?({pattern})$"
