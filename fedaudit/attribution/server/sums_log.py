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
    message = f"{log} is no log of sums; choose another --log."
    table = read_json(log, message)
    rounds = table.get("rounds") if isinstance(table, dict) else None
    if not isinstance(rounds, list) or not all(map(_is_entry, rounds)):
        raise InputError(message)
    if table.get("run") != run:
        raise InputError(f"{log} is the log of another run; choose another --log.")
    return rounds


def _is_entry(entry: Any) -> bool:
    """Return whether `entry` has those fields of a log's round that are read here."""
    return (
        isinstance(entry, dict)
        and type(entry.get("round")) is int
        and type(entry.get("queries")) is int
        and isinstance(entry.get("designs"), list | dict)
        and isinstance(entry.get("ledger", ""), str)
    )


def add_entry(logs: Sequence[Any], entry: Mapping[str, Any]) -> list[Any]:
    """Return the log with `entry` added; an entry of the same round and sets is kept once.

    Sets that were entered for a round, but not asked for before the run was interrupted, go once
    the round was asked for by others.
    """
    new = json.loads(json.dumps(entry))
    sets = ("round", "designs")
    existing = [e for e in logs if [e.get(k) for k in sets] == [new[k] for k in sets]]
    if existing and (existing[0].get("ledger") or not new.get("ledger")):
        return asked_entries(logs)
    return asked_entries([*(e for e in logs if e not in existing), new])


def asked_entries(logs: Sequence[Any]) -> list[Any]:
    """Return a log without what was only entered for rounds that the ledger has by other sets.

    A round is entered in the log first, then in the ledger, and asked for after that.
    """
    asked_rounds = {e["round"] for e in logs if e.get("ledger")}
    return [e for e in logs if e.get("ledger") or e["round"] not in asked_rounds]


def write(rounds: Sequence[Any], log: Path, run: str) -> None:
    """Write the log, for the server alone."""
    table = {"run": run, "queries": sum(entry["queries"] for entry in rounds), "rounds": rounds}
    atomic_text(log, json.dumps(table, indent=2) + "\n", mode=0o600)
