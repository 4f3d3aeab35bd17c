"""Where attackers stand, what they must know, and what was measured for each of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedaudit.api.records import Measurement
from fedaudit.api.target_sets import ALL, DISJOINT, EXCLUSIVE
from fedaudit.report import query
from fedaudit.report.kinds.registry import class_of
from fedaudit.report.query import Row
from fedaudit.report.verdict.recheck import judgements

ACCESS = {
    "membership": "logprobs",
    "ranking": "logprobs",
    "inversion": "logprobs",
    "reconstruction": "updates",
    "canary": "logprobs",
    "discoverable": "logprobs",
}
"""What each attack needs besides generated texts, by the attack's name."""

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
    "inversion": "rest of the record",
    "reconstruction": "a round's start",
    "canary": "canaries",
}
"""What the attacker must have for each attack, by the attack's name."""

PUBLIC, CLIENT, KEY_HOLDER, SERVER, UNKNOWN = (
    *("public", "client", "key holder", "server"),
    "not stated by the attack",
)
POSITIONS = (PUBLIC, CLIENT, KEY_HOLDER, SERVER)
"""The attacker's positions, from the furthest from the model to the nearest."""

DECLARED = {"outsider": PUBLIC, "member": CLIENT, "key-holder": KEY_HOLDER, "server": SERVER}
"""Positions by the names under which they are declared."""

NEEDS = {
    PUBLIC: "access as the release gives it",
    CLIENT: "the global model",
    KEY_HOLDER: "a key of the deployed gate",
    SERVER: "the clients' updates, or their sums",
}
MADE_FROM = {
    **dict.fromkeys(("contextual", "frequency", "superset", "laft"), CLIENT),
    **dict.fromkeys(
        ("untargeted", "benign", "verbatim", "discoverable", "memorize", "canary"), PUBLIC
    ),
    **dict.fromkeys(("membership", "ranking", "inversion", "gate"), PUBLIC),
}
"""The furthest position from which an attack can be made."""

SOURCE = "source_accuracy"
"""How often the server finds out whose a record is: a result of no class, which is not judged."""
OF_THE_SERVER = frozenset({"attribution", "source"})
"""Kinds of rows about what the server can find out; they belong to no class of attacks."""

NOT_TOTALS = ("label", "category", "document", "text", "task", "round")
PREFERRED_SETS = (EXCLUSIVE, DISJOINT, ALL)


def position_of(report: Row, row: Row) -> str:
    """Return the furthest position from which the attack of a report's row can be made."""
    if report["target"].get("update_of"):  # a client's own update, which the server receives
        return SERVER
    if row["scope"].get("key") in ("right", "other"):
        return KEY_HOLDER
    if row["scope"].get("requests") == "own":  # of records that only a client has
        return CLIENT
    if row["scope"].get("view") == "global":  # the adapter that every member receives
        return CLIENT
    if row["kind"] in OF_THE_SERVER or attack_class(row) == "reconstruction":
        return SERVER
    return MADE_FROM.get(row["plugin"], UNKNOWN)


def attack_class(row: Row) -> str:
    """Return the class of attacks that a report's row is a result of; "" for none."""
    return class_of(Measurement(**row))


def headline_totals(report: Row) -> list[Row]:
    """Return the headline total of each attack and class, for each key if there are keys.

    Rows that fail are preferred, then other judged rows, leaks beyond the base, the judged set of
    targets, and the largest value. Source inference, which belongs to no class, has its total over
    all clients.
    """
    judged = [j for j in judgements(report) if j["measurement"]]
    judged_rows = [j["measurement"] for j in judged]
    failed_rows = [j["measurement"] for j in judged if j["status"] == "fail"]
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in report["measurements"]:
        name = row["metric"] if is_source(row) else attack_class(row)
        if name and _is_total(row):
            groups.setdefault((row["plugin"], name, str(row["scope"].get("key"))), []).append(row)
    return [
        min(rows, key=lambda row: (not is_one_of(row, failed_rows), *_rank(row, judged_rows)))
        for rows in groups.values()
    ]


def is_source(row: Row) -> bool:
    """Tell whether a row is how often source inference was right, over all clients."""
    return bool(row["metric"] == SOURCE and "client" not in row["scope"])


def _is_total(row: Row) -> bool:
    scope = row["scope"]
    return (
        row["value"] is not None
        and not query.is_sweep(row)
        and not any(scope.get(name, "all") != "all" for name in NOT_TOTALS)
        and scope.get("source", "tuned") in ("tuned", "tuned-not-base")
    )


def _rank(row: Row, judged_rows: list[Mapping[str, Any]]) -> tuple[object, ...]:
    subset = row["scope"].get("set")
    rank = PREFERRED_SETS.index(subset) if subset in PREFERRED_SETS else 0
    is_judged = is_one_of(row, judged_rows)
    return not is_judged, row["low"] is None, query.source_rank(row), rank, -row["value"]


def is_one_of(row: Row, measurements: Sequence[Row]) -> bool:
    """Tell whether a row is one of the measurements of judgements."""
    names = ("plugin", "metric", "scope", "value")
    return any(all(m[name] == row[name] for name in names) for m in measurements)


def unmeasured(report: Row) -> list[str]:
    """Return the attacker's positions for which a report has no measurement."""
    measured = {position_of(report, row) for row in headline_totals(report)}
    measured |= {SERVER for row in report["measurements"] if row["kind"] in OF_THE_SERVER}
    return [name for name in POSITIONS if name not in measured]
