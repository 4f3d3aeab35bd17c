"""What is measured on a victim beside extraction: inference from candidates, and exposure."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.audit.request import ExposureRequest, InferenceRequest
from fedaudit.canaries import canary_file
from fedaudit.config.profile import Variant
from fedaudit.reproduction.audits import RunAudit, attacked_model, deployed_client
from fedaudit.simulation.config import Simulation

if TYPE_CHECKING:
    from fedaudit.report.document import Report

RANKING = "ranking"


def measure_inference_and_exposure(
    variant: Variant, folder: Path, config: Simulation, run: RunAudit
) -> Iterator["Report"]:
    """Yield the reports of inference and exposure, each where the variant asks for it.

    Exposure is measured on the global adapter of the last round, or of the variant's round, which
    every client has with or without a defence.
    """
    common = attacked_model(variant, folder, config)
    if variant.infer is not None:
        request = InferenceRequest(
            data=folder / f"data/{variant.victim}.jsonl",
            options={RANKING: dict(variant.infer)},
            client=deployed_client(variant, folder),
            **common,
        )
        yield run(request).report
    if variant.exposure:
        last = config.rounds if variant.round < 0 else variant.round
        common |= {"adapter": None, "round": last, "keys": ()}
        exposed = ExposureRequest(canaries=folder / canary_file.OWNER, **common)
        yield run(exposed).report
