"""Requests: the settings of `fedaudit extract` and `fedaudit infer`, and those all share."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from fedaudit.api.plugin import DETECTOR
from fedaudit.audit.inputs.clients import ClientData
from fedaudit.engine.remote.options import EndpointOptions
from fedaudit.engine.vllm.options import VllmOptions

TEMPLATE = "fed_pii"
"""The prompt template, where neither user nor target names one."""
BUDGET = 10_000
"""The paper's: so many random prefixes of each attacker (FedPII, section 5.3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest(ABC):
    """What a command was asked to do; each command adds the files that it takes.

    Raises ValueError for a number that is too small.
    """

    kind: ClassVar[str]
    """Its name in the cache of answers."""
    command: ClassVar[str]
    purpose: ClassVar[str]
    """What the report's seed seeds."""
    input_kind: ClassVar[str] = "a JSONL file"
    """What `input_path` must be, in words."""
    compares_counterfactual: ClassVar[bool] = False
    """Whether its attacks look for a federation without the victim, beside the one audited."""
    compares_every_counterfactual: ClassVar[bool] = False
    """Whether it looks for federations without each of its clients, beside the one audited."""
    minimums: ClassVar[Mapping[str, int]] = {"batch_size": 0}
    """The smallest value of each number that has one."""

    attacks: tuple[str, ...]
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options of the attacks and of the detector, by name."""
    target: str | None = None
    adapter: str | None = None
    round: int | None = None
    client: str | None = None
    """Whose deployed model is asked, where a defence has deployed one."""
    keys: tuple[str, ...] = ()
    """The kinds of key under which it is asked; all without any."""
    detector: str = DETECTOR
    template: str = TEMPLATE
    """The prompt template of instruction records, where the target names none itself."""
    seed: int = 0
    batch_size: int = 0
    device: str = "auto"
    dtype: str = "auto"
    members: tuple[Path, ...] = ()
    """Documents of members beside attacker and victim; the federation's own without any."""
    control: Path | None = None
    """Documents that nobody in the federation has: their PII shows what guessing gives."""
    engine: str = "local"
    """Where the model is asked: "local[:N]" on this machine, "ray[:N]" on a Ray cluster, "vllm[:N]"
    by a vLLM server on N GPUs."""
    vllm: VllmOptions | None = None
    """How that vLLM server is started."""

    model: str | None = None
    """By which name a server has the model, where the target is a server's address."""
    endpoint: EndpointOptions | None = None
    """How that server is asked."""

    def __post_init__(self) -> None:
        for name, smallest in self.minimums.items():
            if getattr(self, name) < smallest:
                raise ValueError(f"{name} must be {smallest} or more.")

    @property
    @abstractmethod
    def input_path(self) -> Path:
        """The attacker's own documents."""

    @property
    def participants(self) -> tuple[ClientData, ...]:
        """The clients that take part, if they are more than an attacker and a victim."""
        return ()

    @property
    def victim_path(self) -> Path | None:
        """The victim's documents, if the auditor has them."""
        return None

    @property
    def held_out_path(self) -> Path | None:
        """Documents like the victim's that nobody trained on, if the auditor names any."""
        return None

    @property
    def counterfactual_path(self) -> Path | None:
        """The federation trained without the victim, if the auditor names one."""
        return None

    @property
    def reference_paths(self) -> tuple[Path, ...]:
        """Federations trained in the same way on other records, if the auditor names any."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionRequest(AuditRequest):
    """What `fedaudit extract` was asked to do."""

    kind: ClassVar[str] = "extract"
    command: ClassVar[str] = "extract"
    purpose: ClassVar[str] = "extraction"
    compares_counterfactual: ClassVar[bool] = True

    attacks: tuple[str, ...] = ("contextual",)
    prefixes: Path
    victim: Path | None = None
    held_out: Path | None = None
    counterfactual: Path | None = None
    reference_folders: tuple[Path, ...] = ()

    @property
    def input_path(self) -> Path:
        """The attacker's own documents, or prompts."""
        return self.prefixes

    @property
    def victim_path(self) -> Path | None:
        """The victim's documents, to score against."""
        return self.victim

    @property
    def held_out_path(self) -> Path | None:
        """Documents like the victim's that nobody trained on."""
        return self.held_out

    @property
    def counterfactual_path(self) -> Path | None:
        """The federation trained without the victim."""
        return self.counterfactual

    @property
    def reference_paths(self) -> tuple[Path, ...]:
        """Federations trained alike on other records."""
        return self.reference_folders


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossClientRequest(AuditRequest):
    """What `fedaudit extract --matrix` was asked to do."""

    kind: ClassVar[str] = "cross_client"
    command: ClassVar[str] = "extract"
    purpose: ClassVar[str] = "extraction"
    minimums: ClassVar[Mapping[str, int]] = {"batch_size": 0, "budget": 1}

    attacks: tuple[str, ...] = ("contextual",)
    clients: tuple[ClientData, ...]
    budget: int = BUDGET
    """How many prefixes of each attacker are asked, drawn at random from those of a multiset."""

    @property
    def input_path(self) -> Path:
        """The documents of the first client, from which the federation is found."""
        return Path(self.clients[0].path)

    @property
    def participants(self) -> tuple[ClientData, ...]:
        """All clients: each is the attacker once."""
        return self.clients


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceRequest(AuditRequest):
    """What `fedaudit infer` was asked to do."""

    kind: ClassVar[str] = "infer"
    command: ClassVar[str] = "infer"
    purpose: ClassVar[str] = "inference"

    attacks: tuple[str, ...] = ("ranking",)
    data: Path
    attacker: Path | None = None
    """Whose documents the attacker has; what stands in them is not asked about."""

    @property
    def input_path(self) -> Path:
        """The attacker's own documents, or else the documents whose PII is masked."""
        return self.attacker or self.data

    @property
    def victim_path(self) -> Path | None:
        """The documents whose PII is masked, if an attacker has other ones."""
        return self.data if self.attacker else None
