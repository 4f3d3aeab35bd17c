"""What `fedaudit memorize` is asked to do."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from fedaudit.audit.inputs.clients import ClientData
from fedaudit.audit.memorization.options import Protocol
from fedaudit.audit.request import AuditRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorizationRequest(AuditRequest):
    """What `fedaudit memorize` was asked to do."""

    kind: ClassVar[str] = "memorize"
    command: ClassVar[str] = "memorize"
    purpose: ClassVar[str] = "memorization"
    compares_every_counterfactual: ClassVar[bool] = True
    minimums: ClassVar[Mapping[str, int]] = {"batch_size": 0, "workers": 0}

    attacks: tuple[str, ...] = ()
    clients: tuple[ClientData, ...]
    protocol: Protocol = field(default_factory=Protocol)
    shorter: bool = False
    """Whether a prefix has fewer tokens than the protocol says where most texts are too short."""
    workers: int = 0
    """Processes that compare texts; 0: as many as there are cores."""

    @property
    def input_path(self) -> Path:
        """The documents of the first client, by which the federation is found."""
        return Path(self.clients[0].path)

    @property
    def participants(self) -> tuple[ClientData, ...]:
        """All clients whose texts are looked for."""
        return self.clients
