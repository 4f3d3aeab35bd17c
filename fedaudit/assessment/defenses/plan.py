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
    """Seconds that a training takes, by the one that made the audited federation, if known."""
    size: int | None = None
    """Bytes of that federation's folder."""

    @property
    def applicable(self) -> list[DefenseCandidate]:
        """The defences that can be tried."""
        return [one for one in self.candidates if not one.reason]

    @property
    def trainings(self) -> int:
        """Federations to train, those without a defence included."""
        return (len(self.applicable) + 1) * len(self.seeds)


def fresh_seeds(config: Simulation, count: int) -> list[int]:
    """Return so many seeds after the federation's own, which is the one that was found to leak."""
    return list(range(config.seed + 1, config.seed + 1 + count))


def earlier_seconds(material: Material, config: Simulation) -> float | None:
    """Return about how long one training takes, by the report in the federation's folder.

    What was trained beside the federation there, the central model, is not trained again: it is as
    much as a client's share. None without a report.
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
    """Return the bytes of the federation's folder, which every trained one has about as many of."""
    federation = material.audited.federation
    if federation is None:
        return None
    return sum(path.stat().st_size for path in Path(federation.path).rglob("*") if path.is_file())
