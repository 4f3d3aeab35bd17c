"""Cross-client memorization of one variant of a study."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.audit import memorize
from fedaudit.audit.memorization_clients import parties
from fedaudit.audit.memorization_options import Protocol
from fedaudit.audit.pipeline import Watcher
from fedaudit.options import build
from fedaudit.profile import Variant
from fedaudit.simulation.config import Simulation

if TYPE_CHECKING:
    from fedaudit.report.document import Report
    from fedaudit.report.redaction import Redactor


def memorized(
    variant: Variant, place: Path, config: Simulation, redactor: "Redactor", watch: Watcher
) -> Iterator["Report"]:
    """Yield the report of a variant's memorization, unless it has no table of that name."""
    if variant.memorize is None:
        return
    central = place / f"central/{config.rounds:03d}"
    request = memorize.Request(
        clients=parties(place, ()),
        protocol=build(Protocol, variant.memorize, f"variant {variant.name} memorize"),
        options=variant.options,
        target=str(place),
        adapter=str(central) if variant.model == "central" else None,
        round=variant.round if variant.round >= 0 else None,
        seed=config.seed,
        device=config.device,
        dtype=config.dtype,
        workers=config.workers,
    )
    yield memorize.run(request, lambda: redactor, watch).report
