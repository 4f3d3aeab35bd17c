"""FedProx (Li et al., 2020, algorithm 2): FedAvg with a proximal term in the clients' loss."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedaudit.api import Update

from .fedavg import FedAvg

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class FedProx(FedAvg):
    """FedAvg whose clients add mu/2 * ||w - w_start||^2 to their loss."""

    name: ClassVar[str] = "fedprox"
    paper: ClassVar[str] = "Li et al. 2020, arXiv:1812.06127"

    mu: float = 0.01
    """The weight of the proximal term; 0 is FedAvg."""

    def __post_init__(self) -> None:
        if self.mu < 0:
            raise ValueError(f"mu is {self.mu}, but must not be negative.")

    def penalty(self, start: Update, weights: Update) -> "torch.Tensor | None":
        """Return mu/2 times the squared distance from the round's global adapter (eq. 2)."""
        if self.mu == 0:
            return None
        import torch

        distances = [((tensor - start[name]) ** 2).sum() for name, tensor in weights.items()]
        return self.mu / 2 * torch.stack(distances).sum()
