"""FedAvgM (Hsu et al., 2019): FedAvg with momentum at the server."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedaudit.api import State, Update

from .fedavg import FedAvg


@dataclass(frozen=True)
class FedAvgM(FedAvg):
    """Move the server by its velocity: v <- beta * v + (mean - start), start + rate * v."""

    name: ClassVar[str] = "fedavgm"
    paper: ClassVar[str] = "Hsu et al. 2019, arXiv:1909.06335, section 3.3"

    beta: float = 0.9
    """The server's momentum: how much of the last round's velocity is kept."""
    rate: float = 1.0
    """The server's learning rate."""

    def __post_init__(self) -> None:
        if not 0 <= self.beta < 1 or self.rate <= 0:
            raise ValueError("beta must be at least 0 and below 1, rate above 0.")

    def step(
        self, start: Update, updates: Sequence[Update], weights: Sequence[float], state: State
    ) -> tuple[Update, State]:
        """Return the next adapter and the velocity, which starts at zero."""
        mean = self.aggregate(start, updates, weights)
        moved, velocity = {}, {}
        for name, tensor in start.items():
            delta = mean[name].double() - tensor.double()
            before = state["velocity"][name] if state else 0.0
            velocity[name] = self.beta * before + delta
            moved[name] = (tensor.double() + self.rate * velocity[name]).to(tensor.dtype)
        return moved, {"velocity": velocity}
