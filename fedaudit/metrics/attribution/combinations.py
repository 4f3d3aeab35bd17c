"""Estimates of updates as linear combinations of sums over sets of clients."""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

Members = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Combination:
    """One client's estimated update: the sum over sets of coefficient times sum."""

    target: str
    coefficients: Mapping[Members, float]
    """By set; none is zero."""

    def client_shares(self) -> dict[str, float]:
        """Return the share of each client's update in the estimate, including the target's own 1.

        Clients that are in none of the sets are left out.
        """
        coefficients: dict[str, list[float]] = defaultdict(list)
        for members, coefficient in self.coefficients.items():
            for client in members:
                coefficients[client].append(coefficient)
        return {client: math.fsum(coefficients[client]) for client in sorted(coefficients)}
