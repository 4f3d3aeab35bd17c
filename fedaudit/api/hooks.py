"""The hooks a plugin package may implement; each returns a list of classes."""

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from fedaudit.api.attribution import Attributor
    from fedaudit.api.defense import Defense
    from fedaudit.api.importer import Importer
    from fedaudit.api.plugin import Aggregator, Attack, Paraphraser, PiiDetector
    from fedaudit.api.secure_aggregation import SecureAggregation
    from fedaudit.api.watermark import Watermark

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


@hookspec
def fedaudit_watermarks() -> "list[type[Watermark]]":  # type: ignore[empty-body]
    """Return the watermarks that this package offers to `watermark` and `simulate`."""


@hookspec
def fedaudit_secure_aggregations() -> "list[type[SecureAggregation]]":  # type: ignore[empty-body]
    """Return the forms of secure aggregation that this package offers to `simulate`."""


@hookspec
def fedaudit_attributors() -> "list[type[Attributor]]":  # type: ignore[empty-body]
    """Return the ways to attribute a watermark that this package offers to `attribute`."""


@hookspec
def fedaudit_paraphrasers() -> "list[type[Paraphraser]]":  # type: ignore[empty-body]
    """Return the scorers of paraphrases that this package offers to `memorize`."""


@hookspec
def fedaudit_importers() -> "list[type[Importer]]":  # type: ignore[empty-body]
    """Return the layouts of other frameworks that this package lets `import` read."""
