"""FedAvg (McMahan et al., 2017, algorithm 1): the weighted mean of the clients' adapters."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedaudit.api import Aggregator, Update


@dataclass(frozen=True)
class FedAvg(Aggregator):
    """Average the clients' adapters by their example counts; A and B are averaged separately."""

    name: ClassVar[str] = "fedavg"
    paper: ClassVar[str] = "McMahan et al. 2017, arXiv:1602.05629"

    def aggregate(
        self, start: Update, updates: Sequence[Update], weights: Sequence[float]
    ) -> Update:
        """Return sum_k (n_k / n) w_k, in float64 and then the tensors' own dtype."""
        total = float(sum(weights))
        return {
            name: sum(
                (u[name].double() * (w / total) for u, w in zip(updates, weights, strict=True)),
                start=tensor.double() * 0.0,
            ).to(tensor.dtype)
            for name, tensor in start.items()
        }
