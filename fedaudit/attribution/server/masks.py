"""What an estimate holds of the updates of others than its client."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedaudit.api.errors import InputError
from fedaudit.attribution.server.round_designs import SHARED
from fedaudit.metrics.attribution import subset_design
from fedaudit.metrics.attribution.combinations import Combination

if TYPE_CHECKING:
    import numpy as np

    from fedaudit.attribution.server.query_plan import SumPlan

ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class ForeignShare:
    """The part of one client's update in the estimate of another's."""

    value: float
    """How many times the update; never negative."""
    of: str
    target: str
    round: int


def foreign_shares(estimate: Combination, weights: Mapping[str, float]) -> dict[str, float]:
    """Return how much of each other client's update is in an estimate, where sums are weighted.

    Clients that are in none of its sets are left out.
    """
    import numpy as np

    found = {who: by for who, by in estimate.held().items() if who != estimate.target}
    own = np.array([weights[who] for who in found])
    c = subset_design.weighted_coefficients(
        np.array(list(found.values())), own, weights[estimate.target]
    )
    return dict(zip(found, c.tolist(), strict=True))


def masks(estimate: Combination, weights: Mapping[str, float]) -> "np.ndarray":
    """Return the same as numbers alone."""
    import numpy as np

    return np.array(list(foreign_shares(estimate, weights).values()))


def largest_foreign_share(planned: "SumPlan") -> ForeignShare | None:
    """Return the largest part of another client's update in any estimate; None without any."""
    shares = (
        ForeignShare(abs(value), who, one.target, number)
        for number, design in planned.designs.items()
        for one in design.combinations
        for who, value in foreign_shares(one, planned.weights).items()
    )
    return max(shares, key=lambda share: share.value, default=None)


def describe_weights(planned: "SumPlan") -> Iterator[str]:
    """Yield what the sums are of, and the most that an estimate holds of another client."""
    if planned.protocol == SHARED:
        yield "all estimates of a round are made of the same sums, over sets that they share"
    if planned.weighting == "size":
        yield "sums are weighted by the clients' sizes"
    else:
        yield "every client's update has weight 1 in the sums, whatever its size"
    share = largest_foreign_share(planned)
    if share is not None:
        above = share.value > planned.limit * (1 + ROUNDING)
        yield (
            f"an estimate holds at most {share.value:.2f} times another client's update "
            f"({share.of} in that of {share.target}, round {share.round})"
            + (f", more than the limit of {planned.limit:g}" if above else "")
        )


def check(planned: "SumPlan") -> None:
    """Raise InputError for an estimate whose masks are below the floor of equal weights.

    Designs that are drawn now never are; those of stored sums were drawn before anybody asked how
    much the clients weigh.
    """
    for number, design in planned.designs.items():
        least = design.floor
        weak = {
            one.target: subset_design.masking_strength(masks(one, planned.weights))
            for one in design.combinations
        }
        who = min(weak, key=lambda each: weak[each], default=None)
        if who is not None and weak[who] < least * (1 - ROUNDING):
            raise InputError(
                f"Round {number}: in the stored sums, which are weighted by size, the update of "
                f"{who} has masks of strength {weak[who]:.2f}; the floor is {least:.2f}. Sums of "
                "equal weights keep it: --set queries.weights=equal where it is simulated."
            )
