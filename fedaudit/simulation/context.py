"""What every round of a simulation needs, and what listeners hear of its progress."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fedaudit.api.defense import Defense
from fedaudit.api.plugin import Aggregator
from fedaudit.api.records import Document
from fedaudit.api.secure_aggregation import SecureAggregation
from fedaudit.simulation.client import local_round
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.data.datasets import ClientSequences
from fedaudit.simulation.server import state


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Progress of a simulation: `done` of `total` trainings, with the last one's loss."""

    done: int
    total: int
    model_name: str
    """The name of the training, as in its `ClientTraining`."""
    round: int
    loss: float


Listener = Callable[[Event], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What every round needs: the settings, the folder, and each client's training tokens."""

    config: Simulation
    out: Path
    aggregator: Aggregator
    secure: SecureAggregation | None = None
    defenses: Sequence[Defense] = ()
    tokens: ClientSequences
    documents: Mapping[str, Sequence[Document]] = field(default_factory=dict)
    """The documents of each client's shared adapter, for a defence that follows up on them."""

    def __post_init__(self) -> None:
        state.check(self.aggregator, self.secure, self.defenses)
        local_round.check(self.defenses, self.aggregator)
