"""How far another run of the same audit, with another sampling seed, may be from this one.

Let a string be given by a Poisson number of a run's answers with mean m. It is found with
probability q = 1 - exp(-m), and the number of strings found has the variance V = sum of q (1 - q).
Given once it is with probability m exp(-m) >= q exp(-m) = q (1 - q). So V is at most the expected
number of strings given exactly once, which the run shows; 1 is added for the uncertainty of a small
count. The difference of two runs has the variance 2 V.

An interval for other strings of the kind includes V already, because it takes whether each string
came out as random, unless its groups are so alike that they hide it. So to each side of it, at
least z sqrt(V) long, z sqrt(V) is added in quadrature.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from fedaudit.metrics.intervals import Estimate

Z_95 = 1.959964


@dataclass(frozen=True, slots=True)
class AnswerCounts:
    """How many answers of the tuned model, and of its base, gave each string."""

    tuned: Mapping[str, float]
    base: Mapping[str, float]

    def variance(self, source: str, strings: Collection[str]) -> float:
        """Return V of the strings that come out of `source`.

        A string of "tuned-not-base" hangs on one answer, too, if the base gave it once.
        """
        first, second = self.tuned, self.base
        if source in ("base", "base-not-tuned"):
            first, second = second, first
        if source in ("tuned", "base"):
            second = {}
        given = [string for string in strings if first.get(string, 0.0)]
        return 1.0 + sum((second.get(s, 0.0) or first[s]) == 1 for s in given)


def with_sampling_noise(share: Estimate, n: int, variance: float) -> Estimate:
    """Return the share of `n` strings with an interval that holds for other sampling seeds too."""
    noise = Z_95 * math.sqrt(variance) / n
    low, high = (
        math.hypot(max(side, noise), noise)
        for side in (share.value - share.low, share.high - share.value)
    )
    return Estimate(share.value, max(0.0, share.value - low), min(1.0, share.value + high))
