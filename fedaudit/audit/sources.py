"""What an attack would get of both models, and of nobody's data, if it could be computed."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedaudit.audit.chance import Chance, Strings, estimate
from fedaudit.audit.truth import Truth
from fedaudit.audit.walking import Walked
from fedaudit.metrics.sweep import steps

if TYPE_CHECKING:
    from fedaudit.metrics.intervals import Estimate

MOST = 10**6
"""Samples a prefix, at the end of the grid."""

_ORDER = ("tuned", "base", "tuned-not-base", "control")


@dataclass(frozen=True, kw_only=True)
class Exact:
    """What an attack would get of both models, computed, with any number of samples."""

    plugin: str
    truth: Truth
    tuned: Walked
    base: Walked | None
    size: int
    samples: int
    threshold: float
    sweeps: bool = True
    """Whether other numbers of samples are reported too."""

    @property
    def grid(self) -> tuple[int, ...]:
        """Return the numbers of samples that are reported beside the one that was chosen."""
        return tuple(sorted({*steps(MOST), self.samples})) if self.sweeps else ()

    def models(self) -> dict[str, Walked]:
        """Return the walks by the name of their source, the control's is the tuned model's."""
        return {"tuned": self.tuned} | ({"base": self.base} if self.base else {})

    def sets(self) -> dict[str, "Sources"]:
        """Return what is known of each set of targets."""
        return {name: Sources(self, targets) for name, targets in self.truth.sets().items()}


class Sources:
    """What each source gives of some targets; the control is the same for all of them."""

    def __init__(self, exact: Exact, targets: Collection[str], *, control: bool = True) -> None:
        self._walks = {
            name: (walk, Strings(targets, walk)) for name, walk in exact.models().items()
        }
        if control and exact.truth.control:
            self._walks["control"] = exact.tuned, Strings(exact.truth.control, exact.tuned)

    def chances(self, n: int) -> dict[str, Chance]:
        """Return the probabilities of every source that is asked by itself."""
        return {name: Chance(*walk, n) for name, walk in self._walks.items()}

    def count(self, source: str) -> int:
        """Return how many strings a source is measured on."""
        return len(self._walks[source if source == "control" else "tuned"][1])

    def coverage(self, n: int) -> dict[str, "Estimate"]:
        """Return the expected coverage of each source with its interval."""
        chances = self.chances(n)
        found = {name: self._own(name, chance) for name, chance in chances.items()}
        if "base" in chances:
            found["tuned-not-base"] = self._beyond(chances["tuned"], chances["base"])
        return {name: found[name] for name in _ORDER if name in found}

    def extractable(self, n: int, probability: float) -> dict[str, tuple[int, "Estimate"]]:
        """Return how many strings of each source n samples find with that probability at least.

        Above are those that they might find so with what was given up: by Markov's inequality no
        more than what it adds, over what a string lacks.
        """
        import numpy as np

        from fedaudit.metrics.expected import coverage

        found = {}
        for name, chance in self.chances(n).items():
            hits = int((chance.least >= probability).sum())
            lacks = probability - chance.least
            worth = np.where(lacks > 0, 1 / np.where(lacks > 0, lacks, 1.0), 0.0)
            most = min(float((chance.most >= probability).sum()), hits + chance.more(worth))
            total = self.count(name)
            found[name] = hits, coverage((hits, hits, most), (hits, hits), total)
        return found

    def _own(self, name: str, chance: Chance) -> "Estimate":
        groups = self._walks[name][1].groups
        return estimate(
            (chance.least, chance.least, chance.least, chance.most), (0, chance.more()), groups
        )

    def _beyond(self, tuned: Chance, base: Chance) -> "Estimate":
        """Return what the tuned model gives and the base does not.

        The value is that of models asked independently; the bounds hold however their answers hang
        together (Fréchet's), because a sampler may give both the same random numbers.
        """
        import numpy as np

        least = np.maximum(0.0, tuned.least - base.least)
        return estimate(
            (
                np.maximum(0.0, tuned.least - base.most),
                least,
                tuned.least * (1 - base.least),
                np.minimum(tuned.most, 1 - base.least),
            ),
            (base.more(), tuned.more()),
            self._walks["tuned"][1].groups,
            np.minimum(tuned.least, 1 - base.least),
        )
