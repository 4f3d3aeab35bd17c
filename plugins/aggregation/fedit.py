"""FedIT (Zhang et al., 2023): FedAvg of LoRA adapters of one rank."""

from dataclasses import dataclass
from typing import ClassVar

from .fedavg import FedAvg


@dataclass(frozen=True)
class FedIT(FedAvg):
    """Average LoRA adapters of one rank by their example counts: FedAvg, under its LoRA name.

    An update is the difference of A and of B from the round's global adapter, each separately.
    """

    name: ClassVar[str] = "fedit"
    paper: ClassVar[str] = "Zhang et al. 2023, arXiv:2305.05644"
