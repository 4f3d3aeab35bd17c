"""Rows of a decision, checked against the scores as far as possible without the sets of sums."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedaudit.attribution import report as reporting
from fedaudit.attribution.decision.known_designs import CONTRIBUTION
from fedaudit.attribution.evidence import commitment, report_file
from fedaudit.attribution.measurements import PROTOCOL
from fedaudit.attribution.scores import Scores, score_differences
from fedaudit.metrics.attribution import stouffer
from fedaudit.report.check import Check, State

Row = Mapping[str, Any]
OF_A_TEST = {"client", "mark"}
"""The scope of a client's Z over all rounds, under the mark with its strongest test."""


def check_without_sets(
    report: Row, again: Row, scores: Scores, public: Path | None
) -> Iterator[Check]:
    """Yield the checks of a decision made with the sets that are possible without the sets.

    `again` is a report of the same scores by a decision without the sets.
    """
    why = "no bundle has it: give it with --log"
    yield Check(
        state="not checked",
        kind="decision",
        name="with the server's log of sums",
        why=why,
        rests=report_file.accusation(report),
    )
    old, new = ([row for row in r["measurements"] if not _needs_sets(row)] for r in (report, again))
    why = f"{len(old):,} bit for bit" if old == new else ""
    yield Check(
        state=state_of(old == new), kind="decision", name="measurements without the sets", why=why
    )
    yield _check_tests(report["measurements"], again["measurements"], scores)
    yield _check_findings(report)
    yield _check_limits(report, scores, public)


def check_statistics(
    report: Row, scores: Scores, clients: Sequence[str], opened: Sequence[str]
) -> Iterator[Check]:
    """Yield whether the report's Z of each of `clients` follows from the scores, bit for bit.

    Under a mark that is not opened, the scores themselves are not checked, and neither is Z.
    """
    rows = [row for row in report["measurements"] if _is_statistic(row)]
    for client in clients:
        stated = [row for row in rows if row["scope"]["client"] == client]
        for row in stated:
            mark, (z, n) = row["scope"]["mark"], _statistic(scores, row)
            name, why = f"of {client}, mark {mark}", f"{z!r} over {n} rounds"
            state = state_of(z == row["value"])
            if state == "same" and mark not in opened:
                state, why = "not checked", "the mark is not opened"
            yield Check(state=state, kind="Z", name=name, why=why)
        if not stated and any(client in r.clients for r in scores.rounds):
            yield Check(state="differs", kind="Z", name=f"of {client}", why="the report has none")


def flagged_clients(report: Row) -> list[str]:
    """Return the clients that a report's findings name, and those that its rows flag."""
    named = [str(finding["evidence"].get("client", "")) for finding in report["findings"]]
    return list(dict.fromkeys((*named, *(row["scope"]["client"] for row in _flagging(report)))))


def state_of(same: bool) -> State:
    """Return "same" or "differs", the state of a comparison."""
    return "same" if same else "differs"


def _needs_sets(row: Row) -> bool:
    """Return whether a row depends on the shares of other clients in estimates."""
    return row["metric"] == CONTRIBUTION or _is_statistic(row) or _is_p_value(row)


def _is_statistic(row: Row) -> bool:
    """Return whether a row is the protocol's Z of a client over all rounds."""
    return row["metric"] == "stouffer_z" and _is_of_a_test(row, set(row["scope"]))


def _is_p_value(row: Row) -> bool:
    """Return whether a row is a p-value of a client's Z over all rounds, Holm-adjusted or not."""
    return row["metric"] == "p_value" and _is_of_a_test(row, set(row["scope"]) - {"adjusted"})


def _is_of_a_test(row: Row, names: Collection[str]) -> bool:
    """Return whether a row is the protocol's, for one client and one mark."""
    values = (row["scope"].get(name) for name in OF_A_TEST)
    return (
        row["plugin"] == PROTOCOL
        and set(names) == OF_A_TEST
        and all(isinstance(x, str) for x in values)
    )


def _flagging(report: Row) -> list[Row]:
    """Return the rows of Z above the value needed to flag; marks that cannot flag have no value."""
    rows = (row for row in report["measurements"] if _is_statistic(row))
    return [
        row
        for row in rows
        if None not in (row["value"], row["baseline"]) and row["value"] > row["baseline"]
    ]


def _statistic(scores: Scores, row: Row) -> tuple[float | None, int]:
    """Return Z of the client and the mark in a row's scope, and its number of rounds."""
    client, mark = row["scope"]["client"], row["scope"]["mark"]
    if mark not in scores.marks:
        return None, 0
    differences = list(score_differences(scores, client, mark).values())
    return stouffer.stouffer_z(differences) if differences else None, len(differences)


def _check_tests(old: Sequence[Row], new: Sequence[Row], scores: Scores) -> Check:
    """Return whether each client that took part has one correct Z, and p-values for it.

    Which mark has a client's strongest test, and what Z must exceed, is not checked: both depend on
    the sets.
    """
    shapes = [
        [
            (row["metric"], row["scope"]["client"], sorted(row["scope"]))
            for row in rows
            if _needs_sets(row) and row["metric"] != CONTRIBUTION
        ]
        for rows in (old, new)
    ]
    statistics = [row for row in old if _is_statistic(row)]
    odd = [row for row in statistics if _statistic(scores, row) != (row["value"], row["n"])]
    why = f"{len(odd):,} of {len(statistics):,}" if odd else f"{len(statistics):,} bit for bit"
    same = shapes[0] == shapes[1] and not odd
    return Check(state=state_of(same), kind="Z", name="of every client", why=why)


def _check_findings(report: Row) -> Check:
    """Return whether the findings agree with the report's own rows in clients and numbers."""
    config = report["run"]["config"]
    adjusted = {
        (row["scope"]["client"], row["scope"]["mark"]): row["value"]
        for row in report["measurements"]
        if _is_p_value(row) and "adjusted" in row["scope"]
    }
    expected, possible = [], True
    for row in _flagging(report):
        client, mark = row["scope"]["client"], row["scope"]["mark"]
        z, needed, p_value = row["value"], row["baseline"], adjusted.get((client, mark))
        is_significant = p_value is not None and p_value <= config["alpha"]
        possible = possible and is_significant and needed >= config["threshold"]
        expected.append((client, mark, round(z, 2), round(needed, 2), p_value, row["n"]))
    fields = ("client", "mark", "z", "needed", "p_value", "rounds")
    stated = [tuple(f["evidence"].get(field) for field in fields) for f in report["findings"]]
    same = possible and sorted(stated, key=repr) == sorted(expected, key=repr)
    return Check(state=state_of(same), kind="decision", name="findings by the report's own rows")


def _check_limits(report: Row, scores: Scores, public: Path | None) -> Check:
    """Return whether a report states all limits that do not depend on the sets."""
    config = report["run"]["config"]
    committed = config["committed"] and public is not None
    status = commitment.check_commitments(scores, public) if committed and public else None
    limits = reporting.scores_limits(scores, status, config.get("federations", 0))
    absent = [limit for limit in limits if limit not in report["limits"]]
    why = f"{len(absent):,} of {len(limits):,} are not stated" if absent else f"{len(limits):,}"
    return Check(
        state=state_of(not absent), kind="decision", name="limits without the sets", why=why
    )
