"""Probabilities and expected numbers of strings found with n samples of every prefix."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedaudit.api.estimates import Z_95
from fedaudit.extraction.exact.walk import DRAWS, Floats, WalkedPrefixes
from fedaudit.metrics.expected import (
    count_interval,
    coverage,
    drawn_interval,
    prefix_chains,
    prefix_layers,
)
from fedaudit.metrics.intervals import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCoverage:
    """The expected number of targets found, and the range of one run."""

    value: float
    low: float
    high: float
    """95 % bounds for the expected number: they cover the walk's own draws, not one run's."""
    run: tuple[int, int]
    """The least and the largest number of targets that 95 % of runs find."""
    n: int

    def share(self) -> Estimate:
        """Return the expected share, with an interval for other targets of the same kind."""
        return coverage((self.low, self.value, self.high), self.n)


class WalkedStrings:
    """Some strings, their positions in a walk, and which of them are prefixes of others."""

    def __init__(self, strings: Collection[str], walked: WalkedPrefixes) -> None:
        positions = {string: index for index, string in enumerate(walked.strings)}
        self.own = sorted(strings)
        self.at = np.array([positions[string] for string in self.own], dtype=np.int64)
        self.groups, self.layers = prefix_chains(self.own), prefix_layers(self.own)

    def __len__(self) -> int:
        return len(self.at)


class DrawProbabilities:
    """The probabilities that strings come out at least once in n samples of every prefix.

    They consist of the mass that the walk followed, and of the mass that its draws stand for. All
    arrays are (strings,), in the order of `strings.own`.
    """

    def __init__(self, walked: WalkedPrefixes, strings: WalkedStrings, n: int) -> None:
        self._strings, self._n, self._draws = strings, n, walked.draws
        self._best, self.drawn = walked.best[strings.at], walked.drawn[strings.at]
        self._missed = np.exp(n * walked.log_least[strings.at])
        self._a_draw = _a_draw(walked, strings.at)
        self.least: Floats = 0.0 - np.expm1(n * walked.log_least[strings.at])
        self.most: Floats = -np.expm1(n * walked.log_most[strings.at])
        self.value: Floats = 0.0 - np.expm1(n * log_missed(walked, n)[strings.at])

    def bounds(self) -> tuple[Floats, Floats]:
        """Return 95 % bounds for each string: Garwood's (1936) for the Poisson count of draws."""
        from scipy.special import chdtri

        fewest = np.where(self.drawn, chdtri(2 * self.drawn, 0.975) / 2, 0.0)
        most = chdtri(2 * self.drawn + 2, 0.025) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            a_draw = np.where(self.drawn, self._a_draw, 1 / (1 - self._best) / self._draws)
            high = 1 - self._missed * np.exp(-self._n * most * a_draw)
        high = np.nan_to_num(high, nan=1.0)
        return self._probabilities(fewest), np.maximum(self.value, np.minimum(high, self.most))

    def total(self) -> tuple[float, float, float]:
        """Return the expected hits (low, value, high), with 95 % bounds for the walk's draws.

        Draws that complete strings of the same layer are independent.
        """
        value = float(self.value.sum())
        low = float(self.least.sum()) + sum(map(self._at_least, self._strings.layers))
        high = value + sum(map(self._above, self._strings.layers))
        return min(value, low), value, max(value, min(high, float(self.most.sum())))

    def unfollowed_bound(self, worth: Floats | None = None) -> float:
        """Return a 97.5 % upper bound for the expected hits that branches given up add.

        A hit counts only if the followed branches do not already find the string. `worth` are
        further weights of the strings.
        """
        weights = self._weights() if worth is None else self._weights() * worth
        return sum(
            drawn_interval(weights[layer], self.drawn[layer], self._level)[1]
            for layer in self._strings.layers
        )

    @property
    def _level(self) -> float:
        return 1 - 0.025 / max(1, len(self._strings.layers))

    def _probabilities(self, means: Floats) -> Floats:
        """Return the probabilities under the assumption that each string's draws have `means`."""
        probabilities: Floats = 1 - self._missed * np.exp(-self._n * means * self._a_draw)
        return probabilities

    def _weights(self) -> Floats:
        """Return the largest number of hits that one draw of each string can stand for.

        It is the probability that all other samples miss the string, by the followed branches
        alone, times the samples per draw.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            missed_by_others = self._missed / (1 - self._best)
        weights: Floats = np.nan_to_num(missed_by_others, nan=0.0, posinf=0.0).clip(0, 1)
        return weights * self._n / self._draws

    def _at_least(self, layer: Sequence[int]) -> float:
        """Return a lower bound for what a layer's draws add, all means scaled by one factor."""
        indices = [index for index in layer if self.drawn[index]]
        counts = self.drawn[indices]
        added = (self.value - self.least)[indices]
        if not added.sum() > 0:
            return 0.0
        low, _ = drawn_interval(added / counts, counts, self._level)
        means = np.zeros(len(self.drawn))
        means[indices] = counts * low / added.sum()
        return float((self._probabilities(means) - self.least)[indices].sum())

    def _above(self, layer: Sequence[int]) -> float:
        """Return by how much the hits that a layer's draws add may exceed their estimate.

        What a string's draws add is a concave function of their mean, so it lies below its tangent
        at the observed count.
        """
        counts = self.drawn[layer]
        weights = (self._weights() * np.exp(-self._n * self.drawn * self._a_draw))[layer]
        _, high = drawn_interval(weights, counts, self._level)
        return high - float(weights @ counts)


def string_chances(walked: WalkedPrefixes, strings: Collection[str], n: int) -> dict[str, Estimate]:
    """Return each string's probability to be found with n samples, with its 95 % interval."""
    walked_strings = WalkedStrings(strings, walked)
    probabilities = DrawProbabilities(walked, walked_strings, n)
    bounds = zip(
        probabilities.value.tolist(),
        *(bound.tolist() for bound in probabilities.bounds()),
        strict=True,
    )
    return {
        string: Estimate(*interval)
        for string, interval in zip(walked_strings.own, bounds, strict=True)
    }


def log_missed(walked: WalkedPrefixes, n: int) -> Floats:
    """Return ln of the probability that one sample of every prefix misses each string, (strings,).

    Its n-th power is the probability that n samples do. If d draws per prefix were made, of which
    c complete the string, (1 - n / d)^c has the mean exp(-n m), m being the mass that was not
    followed: so the estimate for n samples is unbiased. Here n is at most `walked.draws` / DRAWS,
    which is the audit's number of samples unless MOST_DRAWS caps the draws, since n / d would
    otherwise be too large; for more samples, this underestimates what is found.
    """
    at_once = min(n, max(1.0, walked.draws / DRAWS))
    a_draw = _a_draw(walked, np.arange(len(walked.strings)))
    log_misses: Floats = walked.log_least + walked.drawn * np.log1p(-at_once * a_draw) / at_once
    return log_misses


def _a_draw(walked: WalkedPrefixes, positions: npt.NDArray[np.int64]) -> Floats:
    """Return by how much one draw of each string lowers ln of the probability of missing it."""
    return walked.weight[positions] / np.maximum(1, walked.drawn[positions]) / max(1, walked.draws)


def expected_coverage(
    chances: tuple[Floats, Floats, Floats],
    bounds: tuple[float, float],
    error: float,
    groups: Sequence[Sequence[int]],
) -> ExpectedCoverage:
    """Return the expected coverage for probabilities (least, value, most), (strings,) each.

    The three differ only if the dependence between two models is unknown. `bounds` are those of the
    expected number, and `error` is its standard error from the walk's draws.
    """
    least, value, most = chances
    return ExpectedCoverage(
        value=float(value.sum()),
        low=max(0.0, min(bounds[0], float(value.sum()))),
        high=min(float(len(value)), max(bounds[1], float(value.sum()))),
        run=(
            count_interval(least, groups, error**2)[0],
            count_interval(most, groups, error**2)[1],
        ),
        n=len(value),
    )


def standard_error(bounds: tuple[float, float, float]) -> float:
    """Return the standard error that corresponds to 95 % bounds (low, value, high)."""
    low, _, high = bounds
    return (high - low) / (2 * Z_95)
