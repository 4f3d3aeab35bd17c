"""What would be trained, and about how long that takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedaudit.api.errors import FedauditError
from fedaudit.assessment.defenses.candidates import DefenseCandidate
from fedaudit.assessment.discovery import Material
from fedaudit.audit.request import ExtractionRequest
from fedaudit.report import document
from fedaudit.simulation.config import Simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class DefensePlan:
    """The federation's settings without a defence, the defences, the seeds, and the attack."""

    config: Simulation
    candidates: Sequence[DefenseCandidate]
    seeds: Sequence[int]
    request: ExtractionRequest
    attacker: str
    victim: str
    earlier: float | None = None
    """Seconds of one training, as measured for the audited federation, if known."""
    size: int | None = None
    """Bytes of that federation's folder."""

    @property
    def applicable(self) -> list[DefenseCandidate]:
        """The defences that can be tried."""
        return [c for c in self.candidates if not c.reason]

    @property
    def trainings(self) -> int:
        """Federations to train, those without a defence included."""
        return (len(self.applicable) + 1) * len(self.seeds)


def fresh_seeds(config: Simulation, count: int) -> list[int]:
    """Return `count` seeds after the federation's own, the one that was found to leak."""
    return list(range(config.seed + 1, config.seed + 1 + count))


def earlier_seconds(material: Material, config: Simulation) -> float | None:
    """Return the approximate time of one training, from the report in the federation's folder.

    A central model is not trained again; its training is assumed to have taken as long as that of
    one client, and is subtracted. Returns None if there is no report.
    """
    federation = material.audited.federation
    if federation is None:
        return None
    try:
        seconds = document.read(federation.path / "report.json")["budget"]["seconds"]
    except FedauditError:
        return None
    beside = bool(federation.manifest.config.get("central"))
    return float(seconds) * config.clients / (config.clients + beside) if seconds else None


def folder_size(material: Material) -> int | None:
    """Return the bytes of the federation's folder; every trained one has about as many."""
    federation = material.audited.federation
    if federation is None:
        return None
    return sum(path.stat().st_size for path in Path(federation.path).rglob("*") if path.is_file())
