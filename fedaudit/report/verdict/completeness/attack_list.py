"""Which attacks a report names without holding a measurement of them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fedaudit.api.records import Measurement
from fedaudit.report.verdict.completeness.finding_counts import NUMBERED

Rows = Sequence[Measurement]

MEASURED = (*NUMBERED, "membership")
"""The attacks that measure something, or say why not, whenever they are made."""

EXTRA = frozenset({"persons", "counterfactual"})
"""Kinds of measurements that stand beside those of an attack and are not its own."""

COMMANDS = {
    "infer": "probability",
    "memorize": "memorization",
    "canary": "exposure",
    "dp": "epsilon",
}
"""The kind of a report's measurements, by the command that wrote it."""

KINDS = {
    "inference": "probability",
    "memorization": "memorization",
    "canaries": "exposure",
}
"""The kind of a step's measurements, by the name of the step of an audit."""


def unmeasured_attacks(report: Mapping[str, Any], measurements: Rows) -> list[str]:
    """Return the attacks and steps that a report's settings or its coverage name in vain.

    An attack that could not be made has a measurement without a value.
    """
    config = report["run"]["config"]
    command = report["run"]["command"]
    names = [
        *(
            [command]
            if command in COMMANDS and not _has_kind(COMMANDS[command], measurements)
            else ()
        ),
        *_unmeasured(config.get("attacks"), measurements),
        *_unmeasured_steps(config.get("steps"), measurements),
        *_uncovered(report.get("coverage") or (), measurements),
    ]
    if config.get("attribution") is True and not _has_kind("attribution", measurements):
        names.append("attribution")
    return list(dict.fromkeys(names))


def _unmeasured(attacks: object, rows: Rows) -> Iterator[str]:
    made = {row.plugin for row in rows if row.kind not in EXTRA}
    listed = set(attacks) if isinstance(attacks, Mapping) else set()
    yield from (name for name in MEASURED if name in listed - made)


def _unmeasured_steps(steps: object, rows: Rows) -> Iterator[str]:
    """Yield the steps of an audit without a measurement, and the attacks of its extraction."""
    if not isinstance(steps, Mapping):
        return
    for name, kind in KINDS.items():
        if name in steps and not _has_kind(kind, rows):
            yield name
    pairs = (row for row in rows if {"attacker", "victim"} <= row.scope.keys())
    if "pairs" in steps and not any(row.kind == "extraction" for row in pairs):
        yield "pairs"
    extraction = steps.get("extraction")
    # A step that failed has one measurement, which names none of its attacks.
    if isinstance(extraction, Mapping) and not any(row.plugin == "extract" for row in rows):
        alone = [row for row in rows if not {"attacker", "victim"} <= row.scope.keys()]
        yield from _unmeasured(extraction.get("attacks"), alone)


def _uncovered(classes: Sequence[Mapping[str, Any]], rows: Rows) -> Iterator[str]:
    """Yield the attacks by which classes of attacks are said to have been run."""
    made = {row.plugin for row in rows if row.value is not None}
    listed = {name for row in classes for name in row["by"]}
    yield from (name for name in (*MEASURED, "canary") if name in listed - made)


def _has_kind(kind: str, rows: Rows) -> bool:
    return any(row.kind == kind for row in rows)
