"""The published scores that compare a model with reference models: what each needs and computes.

Online variants need records that some references had and others had not; offline variants need
only the latter.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from . import likelihood_ratio, rmia

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Observations:
    """What the attacked model and the references say of records.

    The number is a function of each record's token log-probabilities: for LiRA the confidence, for
    RMIA the probability. Shapes: `observed` and `population` (records,), `references` and `trained`
    (records, references).
    """

    observed: Array
    references: Array
    trained: Mask
    population: Mask
    """Which records the attacked model was surely not trained on."""

    @classmethod
    def from_rows(
        cls,
        observed: Sequence[float],
        references: Sequence[Sequence[float]],
        trained: Sequence[Sequence[bool]],
        population: Sequence[bool],
    ) -> "Observations":
        """Return the observations of records, one after the other."""
        return cls(
            np.array(observed, dtype=np.float64),
            np.array(references, dtype=np.float64),
            np.array(trained, dtype=np.bool_),
            np.array(population, dtype=np.bool_),
        )

    def select(self, chosen: Mask) -> "Observations":
        """Return those of some records."""
        return Observations(
            self.observed[chosen],
            self.references[chosen],
            self.trained[chosen],
            self.population[chosen],
        )


@dataclass(frozen=True, slots=True)
class Variant:
    """A published score, and how many references it needs on each side of a record."""

    score: str
    estimator: str
    inside: int
    outside: int
    of_text: Callable[[Sequence[float]], float]
    of_records: Callable[[Observations], Array]

    def usable(self, trained: Mask) -> Mask:
        """Return which records have enough references on both sides."""
        had = trained.sum(axis=1)
        return np.asarray(
            (had >= self.inside) & (trained.shape[1] - had >= self.outside), dtype=np.bool_
        )

    @property
    def missing_reason(self) -> str:
        """Why there are no numbers where a side has no usable record."""
        had = f"at least {self.inside} had and " if self.inside else ""
        return (
            f"one side has no record that, of the reference federations, {had}at least "
            f"{self.outside} had not"
        )


def _rmia_online(seen: Observations) -> Array:
    ratios = rmia.online_ratios(seen.observed, seen.references, seen.trained)
    return rmia.population_shares(ratios, seen.population)


def rmia_offline(seen: Observations) -> Array:
    """Return RMIA's scores, with the a that suits the references best."""
    a = rmia.tuned_a(seen.references, seen.trained)
    ratios = rmia.offline_ratios(seen.observed, seen.references, seen.trained, a)
    return rmia.population_shares(ratios, seen.population)


_FEWEST = likelihood_ratio.FEWEST
VARIANTS = (
    Variant(
        "lira",
        "online",
        _FEWEST,
        _FEWEST,
        likelihood_ratio.confidence,
        lambda seen: likelihood_ratio.online_scores(seen.observed, seen.references, seen.trained),
    ),
    Variant(
        "lira",
        "offline",
        0,
        _FEWEST,
        likelihood_ratio.confidence,
        lambda seen: likelihood_ratio.offline_scores(seen.observed, seen.references, seen.trained),
    ),
    Variant("rmia", "online", 1, 1, rmia.probability, _rmia_online),
    Variant("rmia", "offline", 0, 1, rmia.probability, rmia_offline),
)
