"""The scores of a bundle, compared with those that its estimates and marks give."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from fedaudit.attribution.scores import RoundScores, Scores
from fedaudit.report.check import Check

SETTINGS = ("base", "aggregation", "clients", "asked", "trained", "noted", "dimension", "weights")
"""Fields of scores that describe the federation."""
MARK_SETTINGS = ("marks", "tests", "commitments")
"""Fields of scores that describe each mark, apart from the results of its tests."""
TESTS = ("reference", "clients", "estimates")
"""Fields of a round that are compared in checks of their own; the other fields are its settings."""


def compare_scores(old: Scores, new: Scores, opened: Sequence[str]) -> Iterator[Check]:
    """Yield whether the scores `old` equal `new`, which were computed again for the `opened` marks.

    Scores of marks that are not opened are not checked. The device and the seconds may differ.
    """
    yield _check_settings(old, new, opened)
    by_round = {record.round: record for record in old.rounds}
    for record in new.rounds:
        yield from _compare_round(by_round[record.round], record, opened, _devices(old, new))
    for mark in old.marks:
        if mark not in opened:
            why = "the mark is not opened"
            yield Check(state="not checked", kind="scores", name=f"of mark {mark}", why=why)


def _check_settings(old: Scores, new: Scores, opened: Sequence[str]) -> Check:
    odd = [name for name in SETTINGS if getattr(old, name) != getattr(new, name)]
    for name in MARK_SETTINGS:
        tables = (getattr(old, name), getattr(new, name))
        if len({tuple(table.get(mark) for mark in opened) for table in tables}) > 1:
            odd.append(name)
    if [r.round for r in old.rounds] != [r.round for r in new.rounds]:
        odd.append("the order of rounds")
    return _settings_check("of the federation", odd)


def _settings_check(name: str, odd: Sequence[str]) -> Check:
    why = f"not as the estimates and marks have them: {', '.join(odd)}" if odd else ""
    return Check(state="differs" if odd else "same", kind="settings", name=name, why=why)


def _compare_round(
    old: RoundScores, new: RoundScores, opened: Sequence[str], devices: str
) -> Iterator[Check]:
    where = f"of round {old.round}"
    if old.estimates != new.estimates:
        why = "the scores are of other estimates"
        yield Check(state="differs", kind="estimates", name=where, why=why)
    names = [f.name for f in fields(RoundScores) if f.name not in TESTS]
    yield _settings_check(where, [n for n in names if getattr(old, n) != getattr(new, n)])
    expected, actual = _sorted_scores(old, opened), _sorted_scores(new, opened)
    if expected == actual:
        why = f"{len(actual):,} tests bit for bit"
        yield Check(state="same", kind="scores", name=where, why=why)
        return
    if [x[:2] for x in expected] != [x[:2] for x in actual]:
        why = "other clients were scored"
    else:
        odd = sum(a != b for a, b in zip(expected, actual, strict=True))
        why = f"{odd:,} of {len(expected):,} tests"
    yield Check(state="differs", kind="scores", name=where, why=f"{why}{devices}")


def _devices(old: Scores, new: Scores) -> str:
    """Return both devices in words if they differ: then the scores' last digits may differ."""
    if old.device == new.device:
        return ""
    return f"; made on {old.device or 'an unknown device'}, here {new.device}"


def _sorted_scores(round_scores: RoundScores, marks: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return a round's scores of some marks, with client and mark, in a fixed order."""
    tables = {"": round_scores.reference, **round_scores.clients}
    return [(client, mark, tables[client][mark]) for client in sorted(tables) for mark in marks]
