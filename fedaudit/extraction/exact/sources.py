"""What an attack would get of both models, and of the control, computed instead of sampled."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedaudit.api.target_sets import ALL
from fedaudit.extraction.exact.expected_coverage import (
    DrawProbabilities,
    ExpectedCoverage,
    WalkedStrings,
    expected_coverage,
    standard_error,
)
from fedaudit.extraction.exact.walk import WalkResult
from fedaudit.extraction.targets import TargetSet
from fedaudit.metrics.budget_sweep import budget_steps

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from fedaudit.metrics.intervals import Estimate

MAX_SAMPLES = 10**6
"""Samples a prefix, at the end of the grid."""

_ORDER = ("tuned", "base", "tuned-not-base", "control")


@dataclass(frozen=True, kw_only=True)
class ExactSources:
    """What an attack would get of both models, computed, with any number of samples."""

    plugin: str
    target_set: TargetSet
    tuned: WalkResult
    base: WalkResult | None
    size: int
    samples: int
    threshold: float
    sweeps: bool = True
    """Whether other numbers of samples are reported too."""

    @property
    def grid(self) -> tuple[int, ...]:
        """Return the numbers of samples that are reported beside the one that was chosen."""
        return tuple(sorted({*budget_steps(MAX_SAMPLES), self.samples})) if self.sweeps else ()

    def models(self) -> dict[str, WalkResult]:
        """Return the walks by the name of their source; the control's is the tuned model's."""
        return {"tuned": self.tuned} | ({"base": self.base} if self.base else {})

    def sets(self) -> dict[str, "SourceValues"]:
        """Return the values of each set of targets."""
        return {
            name: SourceValues(self, targets) for name, targets in self.target_set.sets().items()
        }

    def chances(self) -> dict[str, tuple[float, float | None]]:
        """Return how likely each target comes out of both models with the audit's samples."""
        sources = self.sets()[ALL]
        probabilities, strings = sources.chances(self.samples), sources.strings("tuned")
        tuned = probabilities["tuned"].value.tolist()
        base = (
            probabilities["base"].value.tolist() if "base" in probabilities else [None] * len(tuned)
        )
        return dict(zip(strings, zip(tuned, base, strict=True), strict=True))

    def control_chances(self) -> dict[str, float]:
        """Return the same for the strings of the control, by the tuned model alone."""
        sources = self.sets()[ALL]
        probabilities = sources.chances(self.samples).get("control")
        if probabilities is None:
            return {}
        return dict(zip(sources.strings("control"), probabilities.value.tolist(), strict=True))


class SourceValues:
    """What each source gives of some targets; the control is the same for all of them."""

    def __init__(
        self, exact: ExactSources, targets: Collection[str], *, control: bool = True
    ) -> None:
        self._walks = {
            name: (walk, WalkedStrings(targets, walk)) for name, walk in exact.models().items()
        }
        if control and exact.target_set.controls:
            self._walks["control"] = (
                exact.tuned,
                WalkedStrings(exact.target_set.controls, exact.tuned),
            )

    def chances(self, n: int) -> dict[str, DrawProbabilities]:
        """Return the probabilities of every source that is asked by itself."""
        return {name: DrawProbabilities(*walk, n) for name, walk in self._walks.items()}

    def strings(self, source: str) -> Sequence[str]:
        """Return the strings of a source, in the order of its chances."""
        return self._walks[source][1].own

    def places(self, source: str) -> "npt.NDArray[np.int64]":
        """Return where these strings are in the walk."""
        return self._walks[source][1].at

    def count(self, source: str) -> int:
        """Return how many strings a source is measured on."""
        return len(self._walks[source if source == "control" else "tuned"][1])

    def expected(self, n: int) -> dict[str, ExpectedCoverage]:
        """Return the expected hits of each source, with their uncertainty."""
        chances = self.chances(n)
        coverages = {name: self._coverage(name, chance) for name, chance in chances.items()}
        if "base" in chances:
            coverages["tuned-not-base"] = self._beyond(chances["tuned"], chances["base"])
        return {name: coverages[name] for name in _ORDER if name in coverages}

    def extractable(self, n: int, probability: float) -> dict[str, tuple[int, "Estimate"]]:
        """Return how many strings of each source n samples find with that probability at least.

        Below are those that they find so by what was followed alone. Above are those that they
        might find so with what was given up: by Markov's inequality no more than what it adds, over
        what a string lacks.
        """
        import numpy as np

        from fedaudit.metrics.expected import coverage

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
        """Return what the tuned model gives and the base does not.

        The value is that of models asked independently; the bounds hold however their answers
        depend on each other (Fréchet's), because a sampler may give both the same random numbers.
        """
        import numpy as np

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
