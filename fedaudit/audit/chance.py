"""How likely strings are to be found: by one model, asked with every prefix any number of times."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from fedaudit.audit.walking import Walked

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from fedaudit.metrics.intervals import Estimate

    Floats = npt.NDArray[np.float64]

CERTAIN = 10**6
"""A bound on a number of hits that is above every number of targets that there is."""


class Strings:
    """Some strings: their places in a walk, and which of them begin with others."""

    def __init__(self, strings: Collection[str], walked: Walked) -> None:
        import numpy as np

        from fedaudit.metrics.expected import chains, layers

        place = {string: index for index, string in enumerate(walked.strings)}
        own = sorted(strings)
        self.at = np.array([place[string] for string in own], dtype=np.int64)
        self.groups, self.layers = chains(own), layers(own)

    def __len__(self) -> int:
        return len(self.at)


class Chance:
    """The probabilities that one model, asked n times with every prefix, gives some strings."""

    def __init__(self, walked: Walked, strings: Strings, n: int) -> None:
        import numpy as np

        self._strings, self._n, self._draws = strings, n, walked.draws
        log_least, self._best = walked.log_least[strings.at], walked.best[strings.at]
        self.least: Floats = -np.expm1(n * log_least)
        self.most: Floats = -np.expm1(n * walked.log_most[strings.at])
        self._drawn = walked.drawn[strings.at]

    def more(self, worth: "Floats | None" = None) -> float:
        """Return by how much what was given up may add to the expected hits: a 97.5 % bound.

        A hit counts only where what was followed does not find the string already, which is why
        its weight is at most the probability of that in all other samples. `worth` are further
        weights. Draws that complete strings of one layer are independent.
        """
        import numpy as np

        from fedaudit.metrics.expected import missed

        if not self._draws:
            return float("inf")
        with np.errstate(divide="ignore", invalid="ignore"):
            alone = (1 - self.least) / (1 - self._best)
        weights = np.nan_to_num(alone, nan=0.0, posinf=0.0).clip(0, 1) * self._n / self._draws
        weights = weights if worth is None else weights * worth
        layers = self._strings.layers
        level = 1 - 0.025 / max(1, len(layers))
        return sum(missed(weights[layer], self._drawn[layer], level) for layer in layers)


def estimate(
    found: "tuple[Floats, Floats, Floats, Floats]",
    more: tuple[float, float],
    groups: Sequence[Sequence[int]],
    upper: "Floats | None" = None,
) -> "Estimate":
    """Return an expected share with its interval, the bounds by what is surer at either end.

    `found` are probabilities (strings,): the least possible, the least by what was followed, the
    value, and the most possible. `more` is what draws allow to be less at the lower end, and more
    than `upper` (the value without it) at the upper.
    """
    from fedaudit.metrics.expected import beside, count_interval, coverage

    least, low, value, most = found
    upper = value if upper is None else upper
    less, plus = more
    expected = (
        max(least.sum(), low.sum() - less),
        float(value.sum()),
        min(most.sum(), upper.sum() + plus),
    )
    counts = (
        max(
            count_interval(least, groups)[0],
            count_interval(low, groups)[0] - beside(min(less, CERTAIN)),
        ),
        min(
            count_interval(most, groups)[1],
            count_interval(upper, groups)[1] + beside(min(plus, CERTAIN)),
        ),
    )
    return coverage(expected, counts, len(value))
