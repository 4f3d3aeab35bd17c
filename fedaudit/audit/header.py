"""What a journal says of itself, checked: it may come from somebody else's machine."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedaudit.errors import InputError, UsageError
from fedaudit.options import build


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Whose journal this is."""

    run: str
    config: Mapping[str, str]
    """What the answers depend on, by name, as JSON spells it."""
    command: str = ""
    shard: str | None = None
    words: tuple[str, ...] = ()
    """The command line of the audit."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What the answers depend on and was known late."""
    key: str | None = None
    """What tells the journal's key from others."""


def read(content: bytes, path: Path) -> dict[str, Any]:
    """Return the header that the journal `path` begins with; InputError where it is none."""
    try:
        table: dict[str, Any] = json.loads(content)
        build(Header, table, "header")
    except (ValueError, RecursionError, UsageError):
        raise InputError(f"{path} is no journal of this version of fedaudit.") from None
    return table
