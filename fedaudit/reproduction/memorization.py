"""Cross-client memorization of one variant of a study."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.api.errors import TooShortError
from fedaudit.audit.clients import list_clients
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.memorization import rows
from fedaudit.audit.request import MemorizationRequest, Protocol
from fedaudit.audit.run import Watcher
from fedaudit.audit.session import run_audit
from fedaudit.config.options import build_settings
from fedaudit.config.profile import Variant
from fedaudit.engine import environment
from fedaudit.reproduction.audits import is_deployed
from fedaudit.simulation.config import Simulation

if TYPE_CHECKING:
    from fedaudit.report.document import Report
    from fedaudit.report.redaction import Redactor


def measure_memorization(
    variant: Variant, folder: Path, config: Simulation, redactor: "Redactor", watch: Watcher
) -> Iterator["Report"]:
    """Yield the report of a variant's memorization, if it has a `memorize` table.

    If no text is long enough, the report says so and has null instead of the measurements. If a
    defence is deployed, the global adapter is measured, which every client has.
    """
    if variant.memorize is None:
        return
    central = folder / f"central/{config.rounds:03d}"
    request = MemorizationRequest(
        clients=list_clients(folder, (), InputReader()),
        protocol=build_settings(Protocol, variant.memorize, f"variant {variant.name} memorize"),
        options=variant.options,
        target=str(folder),
        adapter=str(central) if variant.model == "central" else None,
        round=_round(variant, folder, config),
        seed=config.seed,
        device=config.device,
        dtype=config.dtype,
        workers=config.workers,
    )
    start_time = datetime.now(UTC)
    try:
        yield run_audit(request, redactor, watch).report
    except TooShortError as error:
        yield _unmeasured_report(variant.name, request, start_time, str(error))


def _round(variant: Variant, folder: Path, config: Simulation) -> int | None:
    if variant.round >= 0:
        return variant.round
    return config.rounds if is_deployed(variant, folder) else None


def _unmeasured_report(
    name: str, request: MemorizationRequest, start_time: datetime, why: str
) -> "Report":
    from fedaudit.report.run_header import build_report

    return build_report(
        command=request.command,
        name=name,
        config=request.protocol.scope(),
        started=start_time,
        base=request.target or "",
        environment=environment.describe(request.device),
        data=[],
        seeds={request.purpose: request.seed},
        measurements=rows.missing_rows(request.protocol),
        limits=[f"Variant {name!r} was not measured. {why}"],
    )
