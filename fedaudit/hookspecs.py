"""The hooks a plugin package may implement; each returns a list of classes."""

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from fedaudit.defense import Defense
    from fedaudit.interfaces import Aggregator, Attack, PiiDetector

hookspec = pluggy.HookspecMarker("fedaudit")
hookimpl = pluggy.HookimplMarker("fedaudit")


@hookspec
def fedaudit_attacks() -> "list[type[Attack]]":  # type: ignore[empty-body]
    """Return the attacks that this package offers to `extract --attack`."""


@hookspec
def fedaudit_aggregators() -> "list[type[Aggregator]]":  # type: ignore[empty-body]
    """Return the aggregation rules that this package offers to `simulate`."""


@hookspec
def fedaudit_defenses() -> "list[type[Defense]]":  # type: ignore[empty-body]
    """Return the defences that this package offers to `simulate`."""


@hookspec
def fedaudit_detectors() -> "list[type[PiiDetector]]":  # type: ignore[empty-body]
    """Return the PII detectors that this package offers for unannotated text."""
