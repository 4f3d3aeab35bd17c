"""FedAdagrad, FedAdam and FedYogi (Reddi et al., 2021, algorithm 2): adaptive server steps.

The mean difference of the clients' adapters from the server's is a pseudo-gradient D:

    m <- beta1 * m + (1 - beta1) * D
    v <- v + D^2                                    (FedAdagrad)
    v <- v - (1 - beta2) * D^2 * sign(v - D^2)      (FedYogi)
    v <- beta2 * v + (1 - beta2) * D^2              (FedAdam)
    x <- x + rate * m / (sqrt(v) + tau)

with m starting at 0 and v at tau^2. As in the paper there is no bias correction, and v takes D^2,
not m^2; the mean is weighted by the clients' example counts.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedaudit.api import State, Update

from .fedavg import FedAvg

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class FedOpt(FedAvg):
    """What the three adaptive rules share."""

    paper: ClassVar[str] = "Reddi et al. 2021, arXiv:2003.00295, algorithm 2"

    rate: float = 0.01
    """The server's learning rate."""
    beta1: float = 0.9
    """How much of the last round's mean difference, m, is kept."""
    beta2: float = 0.99
    """How much of the squared differences of earlier rounds, v, is kept; not in FedAdagrad."""
    tau: float = 1e-3
    """Added to the root of v: the smaller it is, the more adaptive the step."""

    def __post_init__(self) -> None:
        if not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1):
            raise ValueError("beta1 and beta2 must be at least 0 and below 1.")
        if self.rate <= 0 or self.tau <= 0:
            raise ValueError("rate and tau must be above 0.")

    @abstractmethod
    def second_moment(self, v: "torch.Tensor", squared: "torch.Tensor") -> "torch.Tensor":
        """Return v after a round whose pseudo-gradient squared is `squared`."""

    def step(
        self, start: Update, updates: Sequence[Update], weights: Sequence[float], state: State
    ) -> tuple[Update, State]:
        """Return the next adapter, and both moments in float64."""
        mean = self.aggregate(start, updates, weights)
        moved, first, second = {}, {}, {}
        for name, tensor in start.items():
            x = tensor.double()
            delta = mean[name].double() - x
            m = state["m"][name] if state else x * 0.0
            v = state["v"][name] if state else x * 0.0 + self.tau**2
            first[name] = self.beta1 * m + (1 - self.beta1) * delta
            second[name] = self.second_moment(v, delta**2)
            change = first[name] / (second[name].sqrt() + self.tau)
            moved[name] = (x + self.rate * change).to(tensor.dtype)
        return moved, {"m": first, "v": second}


@dataclass(frozen=True)
class FedAdagrad(FedOpt):
    """Divide the server's step by the root of the sum of all squared pseudo-gradients."""

    name: ClassVar[str] = "fedadagrad"

    def second_moment(self, v: "torch.Tensor", squared: "torch.Tensor") -> "torch.Tensor":
        """Return v + D^2."""
        return v + squared


@dataclass(frozen=True)
class FedAdam(FedOpt):
    """Divide the server's step by the root of a moving mean of squared pseudo-gradients."""

    name: ClassVar[str] = "fedadam"

    def second_moment(self, v: "torch.Tensor", squared: "torch.Tensor") -> "torch.Tensor":
        """Return beta2 * v + (1 - beta2) * D^2."""
        return self.beta2 * v + (1 - self.beta2) * squared


@dataclass(frozen=True)
class FedYogi(FedOpt):
    """FedAdam whose second moment moves by a fixed share of the squared pseudo-gradient."""

    name: ClassVar[str] = "fedyogi"

    def second_moment(self, v: "torch.Tensor", squared: "torch.Tensor") -> "torch.Tensor":
        """Return v - (1 - beta2) * D^2 * sign(v - D^2)."""
        return v - (1 - self.beta2) * squared * (v - squared).sign()
