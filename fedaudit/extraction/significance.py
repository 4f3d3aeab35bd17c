"""How sure it is that what came out came from the victim's records.

Three questions, each with a p value. (1) Did more targets come out than control strings, which
nobody has, of the same kind and as likely under the base? (2) Is that more than the base would say
by itself? (3) For each string: how often would a model say it that never saw it?
docs/evidence.md has the reasons, and what was measured of them.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from fedaudit.extraction.recombination import shape_signature, split_pieces
from fedaudit.metrics import surprisal
from fedaudit.metrics.significance import (
    Stratum,
    guess_rate,
    permutation_p_value,
    stratified_p_value,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

WIDTH = 4.0
"""Nats: strings whose likelihoods under the base differ by less are alike."""
SLACK = 1.0
"""Nats by which a control may be less likely than the string that it is compared with."""
MIN_UPLIFT = 2.0
"""Training on other people's records can make a string this many times as likely as under the base,
so that a smaller increase is no evidence."""
DIGITS = 9
"""Digits of a number that hardly anybody guesses, at least; a date has fewer."""
ISSUER = 6
"""Digits that many numbers begin with alike, where too few others are known to tell."""
MIN_SAME_SHAPE = 3
"""With so many other numbers of its shape or more, it is known which digits are alike."""

StratumKey = tuple[str, int]
"""Strings that are compared: a label, and how likely the base finds them in steps of WIDTH."""


@dataclass(frozen=True, kw_only=True)
class LeakEvidence:
    """What came out of the targets that are judged, and of the controls."""

    targets: Mapping[str, str]
    """The strings that are judged, with their labels."""
    controls: Mapping[str, str]
    gained: Mapping[str, float]
    """Of targets and controls: the probability that the tuned model says one and the base does
    not, 1 or 0 where it was tried."""
    strength: Mapping[str, float]
    """How often the tuned model says each string: answers, or a probability."""
    likelihood: Mapping[str, float]
    """ln p of each under the base; empty without a base."""
    base_chance: Mapping[str, float]
    """The probability that the base says a string in this audit: targets, and what came out."""
    outputs: int
    """Answers that were drawn, or would be."""
    seed: int
    uplift: Mapping[str, float] = field(default_factory=dict)
    """How many times as often as the base the tuned model says controls, of each label."""
    sampled: bool = True
    donors: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Other strings of each label, to see which digits numbers have in common."""

    @cached_property
    def strata(self) -> dict[StratumKey, tuple[list[str], list[str]]]:
        """Return targets and controls of each place, those without a counterpart left out."""
        strata: dict[StratumKey, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
        for side, strings in enumerate((self.targets, self.controls)):
            for string, label in sorted(strings.items()):
                strata[label, self._step(string)][side].append(string)
        return {stratum: sides for stratum, sides in sorted(strata.items()) if all(sides)}

    @property
    def matched(self) -> int:
        """Return how many targets have controls that are as likely."""
        return sum(len(targets) for targets, _ in self.strata.values())

    @property
    def effective_controls(self) -> int:
        """Return how many controls would tell as much if every stratum had its even share of them.

        Of a stratum with t targets and c controls each hit multiplies p by about t / (t + c): what
        counts is the mean of its logarithm over the targets. A stratum of many targets and a single
        control tells nothing, however many controls others have.
        """
        sizes = [(len(targets), len(controls)) for targets, controls in self.strata.values()]
        mean = sum(t * math.log1p(c / t) for t, c in sizes) / max(1, self.matched)
        return math.floor(self.matched * math.expm1(mean) + 1e-6)

    def control_p_value(self) -> float:
        """Return the p value against strings that nobody has."""
        if self.sampled:
            return stratified_p_value([self._stratum(*sides) for sides in self.strata.values()])
        values = [
            (self._gains(targets), self._gains(controls))
            for targets, controls in self.strata.values()
        ]
        return permutation_p_value(values, seed=self.seed)

    def base_p_value(self) -> float:
        """Return the p value against the base: what it would say by `chances` of its own."""
        gained = [self.gained.get(s, 0.0) for s in self.targets]
        return surprisal.p_value(gained, list(self.chances.values()))

    @cached_property
    def chances(self) -> dict[str, float]:
        """Return how likely each target comes out of a model that never saw it, at most."""
        return {
            string: min(
                1.0,
                max(MIN_UPLIFT, self.uplift.get(label, 1.0)) * self.base_chance.get(string, 1.0),
            )
            for string, label in self.targets.items()
        }

    def string_p_value(self, string: str, label: str = "") -> float:
        """Return a bound on the probability that a string is said by chance in this audit.

        The larger of two: what the base gives it, and the share of controls, about as likely
        under the base, that come out as often, or what a law of its digits gives to as many
        guesses, whichever is less, doubled for the choice.
        """
        label = label or self.targets[string]
        alike = [
            control
            for control, kind in self.controls.items()
            if kind == label and self._likely(control) >= self._likely(string) - SLACK
        ]
        strength = self.strength.get(string, 0.0)
        hits = sum(
            self.gained.get(c, 0.0) > 0 and self.strength.get(c, 0.0) >= strength for c in alike
        )
        chance = guess_rate(hits, len(alike))
        law = guess_of_digits(string, self.donors.get(label, ())) * self.outputs
        if law < 1 and not hits:
            chance = min(1.0, 2 * min(chance, law))
        return max(chance, self.base_chance.get(string, 1.0))

    def leak_p_value(self) -> float:
        """Return the p value of all targets together: neither controls nor the base explain it."""
        return max(self.control_p_value(), self.base_p_value())

    def any_string_p_value(self) -> float:
        """Return the p value of the surest string, among as many as there are (Bonferroni)."""
        surest = min((self.string_p_value(s) for s in self.gained_targets), default=1.0)
        return min(1.0, len(self.targets) * surest)

    @property
    def gained_targets(self) -> list[str]:
        """Return the judged targets that most likely the tuned model says and the base does not."""
        return sorted(string for string in self.targets if self.gained.get(string, 0.0) >= 0.5)

    def _stratum(self, targets: Sequence[str], controls: Sequence[str]) -> Stratum:
        hits = sum(self.gained.get(s, 0.0) > 0 for s in targets)
        control = sum(self.gained.get(s, 0.0) > 0 for s in controls)
        return Stratum(hits, len(targets), control, len(controls))

    def _gains(self, strings: Sequence[str]) -> "npt.NDArray[np.float64]":
        import numpy as np

        return np.array([self.gained.get(s, 0.0) for s in strings], dtype=np.float64)

    def _likely(self, string: str) -> float:
        return self.likelihood.get(string, 0.0)

    def _step(self, string: str) -> int:
        return math.floor(self._likely(string) / WIDTH)


def guess_of_digits(string: str, donors: Sequence[str]) -> float:
    """Return a bound on the probability of guessing a long number, else 1.

    Digits are as likely as the other numbers of its shape have them in their places (each seen
    once more than it was); with few others, the first ISSUER digits count as known and the rest
    as any. Fewer than DIGITS digits may be a date or another number of which there are few.
    """
    pieces, form = split_pieces(string), shape_signature(string)
    digits = [(index, offset) for index, piece in enumerate(pieces) if piece.isdecimal()
              for offset in range(len(piece))]  # fmt: skip
    if len(digits) < DIGITS:
        return 1.0
    alike = [split_pieces(d) for d in donors if d != string and shape_signature(d) == form]
    if len(alike) < MIN_SAME_SHAPE:
        return 10.0 ** -(len(digits) - ISSUER)
    return math.prod(
        (1 + sum(d[index][offset] == pieces[index][offset] for d in alike)) / (len(alike) + 10)
        for index, offset in digits
    )
