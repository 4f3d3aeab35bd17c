"""The server's log of sums: every set that was ever asked for, and the seed. It stays with it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.system.files import atomic_text, existing_parent, read_json


def read(log: Path, run: str) -> list[Any]:
    """Return the rounds of a log; raises InputError for a file that is no log of this run."""
    if not log.exists():
        existing_parent(log)
        return []
    other = f"{log} is no log of sums; choose another --log."
    table = read_json(log, other)
    rounds = table.get("rounds") if isinstance(table, dict) else None
    if not isinstance(rounds, list) or not all(map(_is_entry, rounds)):
        raise InputError(other)
    if table.get("run") != run:
        raise InputError(f"{log} is the log of another run; choose another --log.")
    return rounds


def _is_entry(one: Any) -> bool:
    """Return whether `one` is a round of a log, as far as a log is read."""
    return (
        isinstance(one, dict)
        and type(one.get("round")) is int
        and type(one.get("queries")) is int
        and isinstance(one.get("designs"), list | dict)
        and isinstance(one.get("ledger", ""), str)
    )


def add_entry(logs: Sequence[Any], entry: Mapping[str, Any]) -> list[Any]:
    """Return a log with an entry; one of the same round and sets is there once."""
    new = json.loads(json.dumps(entry))
    sets = ("round", "designs")
    known = [one for one in logs if [one.get(k) for k in sets] == [new[k] for k in sets]]
    if known and ("ledger" in known[0] or "ledger" not in new):
        return list(logs)
    return [*(one for one in logs if one not in known), new]


def write(rounds: Sequence[Any], log: Path, run: str) -> None:
    """Write the log, for the server alone."""
    table = {"run": run, "queries": sum(one["queries"] for one in rounds), "rounds": rounds}
    atomic_text(log, json.dumps(table, indent=2) + "\n", mode=0o600)
