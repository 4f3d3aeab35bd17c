"""Nesterov momentum at the server (SecureGate, section 4.2, equations 3 to 5).

With w the global adapter, v its velocity and wbar the weighted mean of the clients' adapters:

    p  = w + m v
    v' = m v + rate * (wbar - p)
    w' = w + v'

The clients start from w, as the paper has it, not from the look-ahead p. At rate 1 the momentum
cancels and w' is wbar; at the paper's rate of 0.01 the model moves a hundredth of the way a round.
A steady difference wbar - w moves w by rate / (1 - m (1 - rate)) of it: 0.82 with the defaults.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedaudit.api import State, Update

from .fedavg import FedAvg


@dataclass(frozen=True)
class Nesterov(FedAvg):
    """Move the server towards the clients' mean with look-ahead momentum."""

    name: ClassVar[str] = "nesterov"
    paper: ClassVar[str] = "SecureGate, arXiv:2602.13529, equations 3 to 5"

    momentum: float = 0.5
    """m, how much of the last round's velocity is kept."""
    rate: float = 0.7
    """The server's learning rate."""

    def __post_init__(self) -> None:
        if not 0 <= self.momentum < 1 or self.rate <= 0:
            raise ValueError("momentum must be at least 0 and below 1, rate above 0.")

    def step(
        self, start: Update, updates: Sequence[Update], weights: Sequence[float], state: State
    ) -> tuple[Update, State]:
        """Return the next adapter and the velocity in float64, which starts at zero."""
        mean = self.aggregate(start, updates, weights)
        moved, velocity = {}, {}
        for name, tensor in start.items():
            w = tensor.double()
            v = state["velocity"][name] if state else w * 0.0
            ahead = w + self.momentum * v
            velocity[name] = self.momentum * v + self.rate * (mean[name].double() - ahead)
            moved[name] = (w + velocity[name]).to(tensor.dtype)
        return moved, {"velocity": velocity}
