"""The server's log of sums, which it keeps to itself: every set it ever asked for, and the seed."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.system.files import atomic_text, existing_parent, read_json


def read(log: Path, run: str) -> list[Any]:
    """Return the rounds of a log; raises InputError for a file that is not a log of this run."""
    if not log.exists():
        existing_parent(log)
        return []
    message = f"{log} is not a log of sums; choose another --log."
    table = read_json(log, message)
    rounds = table.get("rounds") if isinstance(table, dict) else None
    if not isinstance(rounds, list) or not all(map(_is_entry, rounds)):
        raise InputError(message)
    if table.get("run") != run:
        raise InputError(f"{log} is the log of another run; choose another --log.")
    digests = table.get("estimates")
    if not isinstance(digests, list) or not all(isinstance(d, str) for d in digests):
        raise InputError(message)
    return rounds


def _is_entry(entry: Any) -> bool:
    """Return whether `entry` has the fields of a round's entry that are read."""
    return (
        isinstance(entry, dict)
        and type(entry.get("round")) is int
        and type(entry.get("queries")) is int
        and isinstance(entry.get("designs"), list | dict)
        and isinstance(entry.get("ledger", ""), str)
    )


def add_entry(logs: Sequence[Any], entry: Mapping[str, Any]) -> list[Any]:
    """Return the log with `entry` added; an entry with the same round and sets is kept once.

    If a run was interrupted after its sets were entered but before their sums were asked for, that
    entry is dropped once the round was asked for with other sets.
    """
    new = json.loads(json.dumps(entry))
    sets = ("round", "designs")
    existing = [e for e in logs if [e.get(k) for k in sets] == [new[k] for k in sets]]
    if existing and (existing[0].get("ledger") or not new.get("ledger")):
        return asked_entries(logs)
    return asked_entries([*(e for e in logs if e not in existing), new])


def asked_entries(logs: Sequence[Any]) -> list[Any]:
    """Return a log without unasked entries of rounds that the ledger has with other sets.

    A round is entered in the log first, then in the ledger, and its sums are asked for after that.
    """
    asked_rounds = {e["round"] for e in logs if e.get("ledger")}
    return [e for e in logs if e.get("ledger") or e["round"] not in asked_rounds]


def handed_over(log: Path) -> list[str]:
    """Return the SHA-256 of each estimates.json that the server handed over; the last one is last.

    The log must be one that `read` accepts, or not exist yet.
    """
    return list(read_json(log, "")["estimates"]) if log.exists() else []


def write(
    rounds: Sequence[Any], log: Path, run: str, estimates: Sequence[str] | None = None
) -> None:
    """Write the log, for the server alone; without `estimates`, those in the file are kept."""
    table = {
        "run": run,
        "queries": sum(entry["queries"] for entry in rounds),
        "estimates": handed_over(log) if estimates is None else list(estimates),
        "rounds": rounds,
    }
    atomic_text(log, json.dumps(table, indent=2) + "\n", mode=0o600)
