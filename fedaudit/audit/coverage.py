"""Which classes of attacks an audit ran, and why the others were not run.

The classes are those of EDPB Opinion 28/2024, paragraph 55. The measurements show which ones ran.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from fedaudit.api.completion import HELD_OUT
from fedaudit.api.policy import ATTACK_CLASSES
from fedaudit.api.records import Measurement
from fedaudit.audit.request import ReleaseContext
from fedaudit.report.checklist.attackers import ACCESS, KNOWLEDGE
from fedaudit.report.kinds.registry import class_of

EDPB = {
    "membership_inference": "55 (i)",
    "attribute_inference": "55 (i)",
    "exfiltration": "55 (ii)",
    "regurgitation": "55 (iii)",
    "inversion": "55 (iv)",
    "reconstruction": "55 (v)",
}
"""The item of that paragraph for each class."""

MADE_BY = {
    "membership_inference": ("membership", "extraction"),
    "attribute_inference": ("ranking", "inference"),
    "exfiltration": ("extraction", "pairs"),
    "regurgitation": ("verbatim", "memorization", "canaries", "extraction"),
    "inversion": ("inversion", "inference"),
    "reconstruction": ("reconstruction",),
}
"""The steps and attacks of each class; the first that was left out gives the reason."""

CONTROLS = frozenset({"control", "known", HELD_OUT})
"""Values of scope.source for strings and records that no attack is on."""

NO_ATTACK = "no attack of this class is part of the audit"
NO_UPDATES = "no round of a federation is at hand"


def coverage(
    measurements: Iterable[Measurement],
    left_out: Mapping[str, str],
    context: ReleaseContext,
    *,
    updates: bool,
    audits_update: bool = False,
) -> list[dict[str, Any]]:
    """Return a row for each class: run, not run or not applicable, by what, and why.

    `left_out` gives the reason why a step or an attack was not run; `updates` tells whether a
    federation's rounds, of which updates could be inverted, are available, and `audits_update`
    whether the audited model is itself a client's update.
    """
    of_class: dict[str, list[Measurement]] = {name: [] for name in ATTACK_CLASSES}
    every = list(measurements)
    # An attack that could not be run has a row without a number, which may belong to no class.
    left_out = {row.plugin: row.reason for row in every if row.value is None} | dict(left_out)
    for row in every:
        if (name := class_of(row)) and row.scope.get("source") not in CONTROLS:
            of_class[name].append(row)
    table = []
    for name, rows in of_class.items():
        measured_rows = [row for row in rows if row.value is not None]
        plugins = sorted({row.plugin for row in measured_rows})
        access = {ACCESS.get(plugin, "text") for plugin in plugins}
        if plugins and audits_update:
            access.add("updates")
        beyond = context.beyond(access)
        caveat = (
            f"uses {', '.join(beyond)}, which the declared release ({context.release}) does not "
            "give"
            if beyond
            else ""
        )
        status, reason = (
            ("run", caveat) if plugins else _missing(name, rows, left_out, updates=updates)
        )
        table.append(
            {
                "class": name,
                "edpb": EDPB[name],
                "status": status,
                "by": plugins,
                "access": sorted(access),
                "knowledge": sorted({KNOWLEDGE[p] for p in plugins if p in KNOWLEDGE}),
                "n": max((row.n for row in measured_rows if row.n is not None), default=None),
                "reason": reason,
            }
        )
    return table


def _missing(
    name: str, rows: list[Measurement], left_out: Mapping[str, str], *, updates: bool
) -> tuple[str, str]:
    """Return the status of a class that has no number, and the reason."""
    if rows:
        return "not_run", next(row.reason for row in rows if row.reason)
    if name == "reconstruction" and not updates:
        return "not_applicable", NO_UPDATES
    reasons = (left_out[step] for step in MADE_BY[name] if step in left_out)
    return "not_run", next(reasons, NO_ATTACK)
