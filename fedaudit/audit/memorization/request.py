"""The settings of `fedaudit memorize`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from fedaudit.audit.inputs.clients import ClientData
from fedaudit.audit.memorization.options import Protocol
from fedaudit.audit.request import AuditRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorizationRequest(AuditRequest):
    """The settings of one `fedaudit memorize`."""

    kind: ClassVar[str] = "memorize"
    command: ClassVar[str] = "memorize"
    purpose: ClassVar[str] = "memorization"
    compares_every_counterfactual: ClassVar[bool] = True
    minimums: ClassVar[Mapping[str, int]] = {"batch_size": 0, "workers": 0}

    attacks: tuple[str, ...] = ()
    clients: tuple[ClientData, ...]
    protocol: Protocol = field(default_factory=Protocol)
    shorter: bool = False
    """Whether prefixes may be shorter than the protocol says if most texts are too short."""
    workers: int = 0
    """The number of processes that compare texts; 0 means one per core."""

    @property
    def input_path(self) -> Path:
        """The first client's file, by which the federation is found."""
        return Path(self.clients[0].path)

    @property
    def participants(self) -> tuple[ClientData, ...]:
        """The clients whose texts are searched for."""
        return self.clients
