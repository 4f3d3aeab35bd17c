"""The shares of other clients' updates in a client's estimate."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedaudit.api.errors import InputError
from fedaudit.attribution.server.round_designs import RoundDesign
from fedaudit.metrics.attribution import subset_design
from fedaudit.metrics.attribution.subset_design import Combination

ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class ForeignShare:
    """The part of one client's update in the estimate of another's."""

    value: float
    """The multiple of the update in the estimate, as an absolute value."""
    of: str
    target: str
    round: int


def foreign_shares(estimate: Combination, weights: Mapping[str, float]) -> dict[str, float]:
    """Return the share of each other client's update in an estimate, given the weights in sums.

    Clients that are in none of the estimate's sets are left out.
    """
    return {
        client: c * weights[client] / weights[estimate.target]
        for client, c in estimate.client_shares().items()
        if client != estimate.target
    }


def masks(estimate: Combination, weights: Mapping[str, float]) -> np.ndarray:
    """Return the foreign shares of an estimate as an array."""
    return np.array(list(foreign_shares(estimate, weights).values()))


def largest_foreign_share(
    designs: Mapping[int, RoundDesign], weights: Mapping[str, float]
) -> ForeignShare | None:
    """Return the largest part of another client's update in any estimate; None without any."""
    shares = (
        ForeignShare(abs(value), client, combination.target, number)
        for number, design in designs.items()
        for combination in design.combinations
        for client, value in foreign_shares(combination, weights).items()
    )
    return max(shares, key=lambda share: share.value, default=None)


def check(designs: Mapping[int, RoundDesign], weights: Mapping[str, float]) -> None:
    """Raise InputError for an estimate whose masks are weaker than the floor for equal weights.

    New designs never have such estimates; the designs of stored sums were drawn without regard to
    the clients' weights.
    """
    for number, design in designs.items():
        least = design.floor
        weak = {
            combination.target: subset_design.masking_strength(masks(combination, weights))
            for combination in design.combinations
        }
        client = min(weak, key=lambda c: weak[c], default=None)
        if client is not None and weak[client] < least * (1 - ROUNDING):
            raise InputError(
                f"Round {number}: in the stored sums, which are weighted by size, the update of "
                f"{client} has masks of strength {weak[client]:.2f}; the floor is {least:.2f}. "
                "Sums of equal weights keep it: --set queries.weights=equal where it is simulated."
            )
