"""Where attackers stand, what they must know, and what was measured for each of them."""

from collections.abc import Mapping
from typing import Any

from fedaudit.api.records import Measurement
from fedaudit.report import query
from fedaudit.report.query import Row
from fedaudit.report.verdict.classes import class_of
from fedaudit.report.verdict.recheck import judgements

ACCESS = {
    "membership": "logprobs",
    "ranking": "logprobs",
    "canary": "logprobs",
    "discoverable": "logprobs",
}
"""What an attack uses beside the texts that a model writes, by its name."""

KNOWLEDGE = {
    "contextual": "own records",
    "frequency": "own records",
    "superset": "own records",
    "laft": "own records",
    "verbatim": "victim's prefix",
    "discoverable": "victim's prefix",
    "memorize": "victim's prefix",
    "membership": "records to test",
    "ranking": "candidates",
    "canary": "canaries",
}
"""What whoever attacks so must have."""

PUBLIC, CLIENT, KEY_HOLDER, SERVER, UNKNOWN = (
    *("public", "client", "key holder", "server"),
    "not stated by the attack",
)
POSITIONS = (PUBLIC, CLIENT, KEY_HOLDER, SERVER)
"""From furthest off to nearest."""

DECLARED = {"outsider": PUBLIC, "member": CLIENT, "key-holder": KEY_HOLDER, "server": SERVER}
"""What positions are called where they are declared."""

NEEDS = {
    PUBLIC: "access as the release gives it",
    CLIENT: "the global model",
    KEY_HOLDER: "a key of the deployed gate",
    SERVER: "the clients' updates, or their sums",
}
MADE_FROM = {
    **dict.fromkeys(("contextual", "frequency", "superset", "laft"), CLIENT),
    **dict.fromkeys(("untargeted", "verbatim", "discoverable", "memorize", "canary"), PUBLIC),
    **dict.fromkeys(("membership", "ranking", "gate"), PUBLIC),
}
"""The furthest position from which an attack can be made."""

OF_THE_SERVER = frozenset({"attribution", "source"})
"""Kinds of rows about what the server can tell, which no class of attacks on the model has."""

NOT_TOTALS = ("label", "category", "document", "text", "task", "round")
TELLING_SETS = ("exclusive", "prefix-disjoint", "all")


def position_of(row: Row) -> str:
    """Return the furthest position from which what a row measured can be done."""
    if row["scope"].get("key") in ("right", "other"):
        return KEY_HOLDER
    if row["kind"] == "attribution" or attack_class(row) in ("inversion", "reconstruction"):
        return SERVER
    return MADE_FROM.get(row["plugin"], UNKNOWN)


def attack_class(row: Row) -> str:
    """Return the class of attacks that a report's row is a result of; "" for none."""
    return class_of(Measurement(**row))


def telling_rows(report: Row) -> list[Row]:
    """Return the total of each attack and class that says most, under each key if there are keys.

    What was judged goes first, then what came out beyond the base, then the judged set of targets.
    """
    judged = [one["measurement"] for one in judgements(report) if one["measurement"]]
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in report["measurements"]:
        if (name := attack_class(row)) and _is_total(row):
            groups.setdefault((row["plugin"], name, str(row["scope"].get("key"))), []).append(row)
    return [min(rows, key=lambda row: _rank(row, judged)) for rows in groups.values()]


def _is_total(row: Row) -> bool:
    scope = row["scope"]
    return (
        row["value"] is not None
        and not query.is_sweep(row)
        and not any(name in scope for name in NOT_TOTALS)
        and scope.get("source", "tuned") in ("tuned", "tuned-not-base")
    )


def _rank(row: Row, judged: list[Mapping[str, Any]]) -> tuple[object, ...]:
    names = ("plugin", "metric", "scope", "value")
    own = any(all(row[name] == one[name] for name in names) for one in judged)
    subset = row["scope"].get("set")
    place = TELLING_SETS.index(subset) if subset in TELLING_SETS else 0
    return not own, row["low"] is None, query.telling_rank(row), place


def unmeasured(report: Row) -> list[str]:
    """Return the positions that no measurement of a report is about."""
    seen = {position_of(row) for row in telling_rows(report)}
    seen |= {SERVER for row in report["measurements"] if row["kind"] in OF_THE_SERVER}
    return [name for name in POSITIONS if name not in seen]
