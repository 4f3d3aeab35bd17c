"""Regular expressions of a stranger's adapter, tried in a process that can be ended.

PEFT matches them against the names of a model's modules, in this process and without an end: one
pattern can take longer than anybody waits. So they are matched before, as PEFT matches them.
"""

import re
from collections.abc import Generator, Iterable, Iterator
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.system import sandbox

SECONDS = 5.0
"""How long all patterns of an adapter may take; those that trainers write take milliseconds."""

FEW = 256
SHOWN = 60
TRIAL = "fedaudit.engine.loading.module_patterns.match_patterns"
_PLAIN = re.compile(r"\^?[\w.-]*\$?")


def check(config: Any, names: Iterable[str]) -> None:
    """Raise InputError where the patterns of a LoRA configuration take too long or too much.

    One that is no regular expression is left to PEFT, which refuses it.
    """
    patterns = list(_patterns(config))
    if len(patterns) <= FEW and all(_PLAIN.fullmatch(plain) for _, plain, _ in patterns):
        return
    try:
        sandbox.attempt(TRIAL, [patterns, ["", *names]], seconds=SECONDS)
    except sandbox.Ended as ended:
        raise InputError(
            f"The adapter's configuration has a pattern of modules, {ended.at!r}, that cannot be "
            f"matched here: {ended.why}. Have the modules named."
        ) from None


def match_patterns(asked: Any) -> Generator[str, None, None]:
    """Match patterns against names; yields the beginning of each pattern."""
    patterns, names = asked
    for how, plain, whole in patterns:
        yield plain[:SHOWN]
        one = getattr(re.compile(whole), how)
        for name in names:
            one(name)


def _patterns(config: Any) -> Iterator[tuple[str, str, str]]:
    """Yield how PEFT matches each pattern, the pattern itself, and what it makes of it."""
    for one in (config.target_modules, config.exclude_modules):
        if isinstance(one, str):
            yield "fullmatch", one, one
    above = config.layers_pattern or ()
    for one in [above] if isinstance(above, str) else above:
        yield "match", one, rf"(?:^|.*?\.){one}\.(?P<idx>\d+)\."
    for table in (config.rank_pattern or {}, config.alpha_pattern or {}):
        for one in table:
            yield "match", one, rf"(.*\.)?({one})$"
