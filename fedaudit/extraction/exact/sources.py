"""The expected results of an attack on the tuned model, its base and the control strings."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedaudit.extraction.exact.expected_coverage import (
    DrawProbabilities,
    ExpectedCoverage,
    WalkedStrings,
    expected_coverage,
    standard_error,
)
from fedaudit.extraction.exact.walk import WalkedPrefixes
from fedaudit.extraction.targets import TargetSet
from fedaudit.metrics.budget_sweep import budget_steps
from fedaudit.metrics.expected import coverage
from fedaudit.metrics.intervals import Estimate

MAX_SAMPLES = 10**6
"""The largest number of samples per prefix in the grid."""

_ORDER = ("tuned", "base", "tuned-not-base", "control")


@dataclass(frozen=True, kw_only=True)
class ExactSources:
    """The walks of both models, from which results for any number of samples follow."""

    plugin: str
    target_set: TargetSet
    tuned: WalkedPrefixes
    base: WalkedPrefixes | None
    size: int
    samples: int
    threshold: float
    sweeps: bool = True
    """Whether results for other numbers of samples are reported too."""

    @property
    def grid(self) -> tuple[int, ...]:
        """Return the numbers of samples in a sweep, including the audit's; empty without sweeps."""
        return tuple(sorted({*budget_steps(MAX_SAMPLES), self.samples})) if self.sweeps else ()

    def sets(self) -> dict[str, "SourceValues"]:
        """Return the values of each set of targets."""
        return {
            name: SourceValues(self, targets) for name, targets in self.target_set.sets().items()
        }


class SourceValues:
    """The results of each source for some targets; the control's do not depend on the targets."""

    def __init__(
        self, exact: ExactSources, targets: Collection[str], *, control: bool = True
    ) -> None:
        self._walks = {"tuned": (exact.tuned, WalkedStrings(targets, exact.tuned))}
        if exact.base:
            self._walks["base"] = exact.base, WalkedStrings(targets, exact.base)
        if control and (strings := exact.target_set.controls):
            self._walks["control"] = exact.tuned, WalkedStrings(strings, exact.tuned)

    def chances(self, n: int) -> dict[str, DrawProbabilities]:
        """Return the probabilities of every source, without tuned-not-base."""
        return {name: DrawProbabilities(*walk, n) for name, walk in self._walks.items()}

    def by_string(self, n: int) -> dict[str, dict[str, float]]:
        """Return each string's probability of every source, without tuned-not-base."""
        return {
            name: dict(zip(self.strings(name), chance.value.tolist(), strict=True))
            for name, chance in self.chances(n).items()
        }

    def strings(self, source: str) -> Sequence[str]:
        """Return the strings of a source, in the order of its chances."""
        return self._walks[source][1].own

    def places(self, source: str) -> npt.NDArray[np.int64]:
        """Return the indices of these strings in the walk."""
        return self._walks[source][1].at

    def count(self, source: str) -> int:
        """Return the number of strings on which a source is measured."""
        return len(self._walks[source if source == "control" else "tuned"][1])

    def expected(self, n: int) -> dict[str, ExpectedCoverage]:
        """Return the expected coverage of each source, with its uncertainty."""
        chances = self.chances(n)
        coverages = {name: self._coverage(name, chance) for name, chance in chances.items()}
        if "base" in chances:
            coverages["tuned-not-base"] = self._beyond(chances["tuned"], chances["base"])
        return {name: coverages[name] for name in _ORDER if name in coverages}

    def extractable(self, n: int, probability: float) -> dict[str, tuple[int, Estimate]]:
        """Return the number of strings that n samples find with at least `probability`, by source.

        The lower bound counts strings for which the followed branches suffice. The upper bound adds
        strings that might reach the probability with the branches given up: by Markov's inequality,
        at most the probability that these may add, divided by what each string lacks.
        """
        results = {}
        for name, chance in self.chances(n).items():
            hits, sure = (
                int((values >= probability).sum()) for values in (chance.value, chance.least)
            )
            lacks = probability - chance.least
            worth = np.where(lacks > 0, 1 / np.where(lacks > 0, lacks, 1.0), 0.0)
            most = min(
                float((chance.most >= probability).sum()), sure + chance.unfollowed_bound(worth)
            )
            results[name] = hits, coverage((sure, hits, max(hits, most)), self.count(name))
        return results

    def _coverage(self, name: str, chance: DrawProbabilities) -> ExpectedCoverage:
        bounds, groups = chance.total(), self._walks[name][1].groups
        alike = (chance.value, chance.value, chance.value)
        return expected_coverage(alike, (bounds[0], bounds[2]), standard_error(bounds), groups)

    def _beyond(self, tuned: DrawProbabilities, base: DrawProbabilities) -> ExpectedCoverage:
        """Return the expected coverage of strings that the tuned model gives and the base does not.

        The value assumes independent samples of both models. The bounds (Fréchet's) hold under any
        dependence, since a sampler may use the same random numbers for both.
        """
        tuned_total, base_total = tuned.total(), base.total()
        least = np.maximum(0.0, tuned.value - base.value)
        most = np.minimum(tuned.value, 1 - base.value)
        lower_margin, upper_margin = (
            tuned_total[1] - tuned_total[0] + base_total[2] - base_total[1],
            tuned_total[2] - tuned_total[1] + base_total[1] - base_total[0],
        )
        sure = np.maximum(0.0, tuned.least - base.most).sum()
        possible = np.minimum(np.maximum(tuned.most, tuned.value), 1 - base.least).sum()
        return expected_coverage(
            (least, tuned.value * (1 - base.value), most),
            (max(least.sum() - lower_margin, sure), min(most.sum() + upper_margin, possible)),
            math.hypot(standard_error(tuned_total), standard_error(base_total)),
            self._walks["tuned"][1].groups,
        )
