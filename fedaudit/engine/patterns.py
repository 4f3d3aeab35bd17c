"""Regular expressions of a stranger's adapter, tried in a process that can be ended.

PEFT matches them against the names of a model's modules, in this process and without an end: one
pattern can take longer than anybody waits. So they are matched before, as PEFT matches them.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from fedaudit.errors import InputError

SECONDS = 5.0
"""How long all patterns of an adapter may take; those that trainers write take milliseconds."""

FEW = 256
_PLAIN = re.compile(r"\^?[\w.-]*\$?")
_BROKEN = 3
_CHILD = f"""
import json, re, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
patterns, names = json.load(sys.stdin)
try:
    for how, pattern in patterns:
        match = getattr(re.compile(pattern), how)
        for name in names:
            match(name)
except re.error:
    sys.exit({_BROKEN})
"""


def check(config: Any, names: Iterable[str]) -> None:
    """Raise InputError where the patterns of a LoRA configuration take too long or too much.

    One that is no regular expression is left to PEFT, which refuses it.
    """
    patterns = list(_patterns(config))
    if len(patterns) <= FEW and all(_PLAIN.fullmatch(plain) for _, plain, _ in patterns):
        return
    asked = json.dumps([[(how, whole) for how, _, whole in patterns], ["", *names]])
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _CHILD],
            input=asked,
            text=True,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        done = None
    if done is None or done.returncode not in (0, _BROKEN):
        longest = max((plain for _, plain, _ in patterns), key=len)
        raise InputError(
            f"The adapter's configuration has patterns of modules that take over {SECONDS:.0f} "
            f"seconds or 1 GiB to match, such as {longest[:60]!r}; have the modules named."
        )


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
