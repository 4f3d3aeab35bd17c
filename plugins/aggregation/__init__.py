"""Aggregation rules of a federation's server."""

from typing import TYPE_CHECKING

from fedaudit.api import hookimpl

if TYPE_CHECKING:
    from fedaudit.api import Aggregator


@hookimpl
def fedaudit_aggregators() -> "list[type[Aggregator]]":
    """Return the built-in aggregation rules."""
    from .fedavg import FedAvg
    from .fedavgm import FedAvgM
    from .fedit import FedIT
    from .fedopt import FedAdagrad, FedAdam, FedYogi
    from .fedprox import FedProx
    from .flora import FLoRA
    from .nesterov import Nesterov
    from .scaffold import Scaffold

    return [
        FedAvg,
        FedAvgM,
        FedAdagrad,
        FedAdam,
        FedYogi,
        FedIT,
        FedProx,
        FLoRA,
        Nesterov,
        Scaffold,
    ]
