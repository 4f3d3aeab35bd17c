"""Statistical evidence that extracted strings came from the victim's records.

Three questions, each with a p value. (1) Were more targets extracted than control strings, which
no one has, of the same kind and as likely under the base? (2) Were more extracted than the base
would say by itself? (3) For each string: how often would a model say it that never saw it?
docs/evidence.md gives the reasons and measurements.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fedaudit.extraction.recombination import shape_signature, split_pieces
from fedaudit.metrics import surprisal
from fedaudit.metrics.significance import (
    Stratum,
    guess_rate,
    permutation_p_value,
    stratified_p_value,
)

WIDTH = 4.0
"""Width of a stratum in nats of ln p under the base: strings in one stratum count as alike."""
SLACK = 1.0
"""Nats by which a control may be less likely than the string compared with it."""
MIN_UPLIFT = 2.0
"""Training on other people's records can make a string this many times as likely as under the base,
so that a smaller increase is not evidence."""
DIGITS = 9
"""The fewest digits of a number that is practically unguessable; a date has fewer."""
ISSUER = 6
"""Leading digits that are assumed to be common to many numbers if too few others are known."""
MIN_SAME_SHAPE = 3
"""With at least so many other numbers of its shape, digit frequencies are taken from them."""

StratumKey = tuple[str, int]
"""Strings are compared within a stratum: a label, and ln p under the base in steps of WIDTH."""


@dataclass(frozen=True, kw_only=True)
class LeakEvidence:
    """Which of the judged targets, and which controls, were extracted."""

    targets: Mapping[str, str]
    """The judged strings with their labels."""
    controls: Mapping[str, str]
    gained: Mapping[str, float]
    """For targets and controls: the probability that the tuned model says the string and the base
    does not; 1 or 0 if sampled."""
    strength: Mapping[str, float]
    """How often the tuned model says each string: a number of answers, or a probability."""
    likelihood: Mapping[str, float]
    """ln p of each string under the base; empty without a base."""
    base_chance: Mapping[str, float]
    """For targets and extracted strings: the probability that the base says one in this audit."""
    outputs: int
    """How many answers were drawn, or would be by sampling."""
    seed: int
    uplift: Mapping[str, float] = field(default_factory=dict)
    """By label, how many times as often as the base the tuned model says controls."""
    sampled: bool = True
    donors: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Other strings of each label, to see which digits numbers have in common."""

    @cached_property
    def strata(self) -> dict[StratumKey, tuple[list[str], list[str]]]:
        """Return the targets and controls of each stratum that has both."""
        strata: dict[StratumKey, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
        for side, strings in enumerate((self.targets, self.controls)):
            for string, label in sorted(strings.items()):
                step = math.floor(self._likely(string) / WIDTH)
                strata[label, step][side].append(string)
        return {stratum: sides for stratum, sides in sorted(strata.items()) if all(sides)}

    @property
    def matched(self) -> int:
        """Return how many targets are in a stratum with controls."""
        return sum(len(targets) for targets, _ in self.strata.values())

    def effective_controls(self, label: str = "") -> int:
        """Return how many controls, evenly spread over the strata, would be as informative.

        With a label, only its strata count.

        In a stratum with t targets and c controls, each hit multiplies p by about t / (t + c): what
        counts is the mean of its logarithm over the targets. A stratum of many targets and a single
        control is uninformative, however many controls other strata have.
        """
        sizes = [
            (len(targets), len(controls))
            for (kind, _), (targets, controls) in self.strata.items()
            if label in ("", kind)
        ]
        matched = sum(t for t, _ in sizes)
        mean = sum(t * math.log1p(c / t) for t, c in sizes) / max(1, matched)
        return math.floor(matched * math.expm1(mean) + 1e-6)

    def control_p_value(self) -> float:
        """Return the p value of the targets against the controls, strings that no member has."""
        if self.sampled:

            def hits(strings: Sequence[str]) -> int:
                return sum(self.gained.get(s, 0.0) > 0 for s in strings)

            return stratified_p_value(
                [Stratum(hits(t), len(t), hits(c), len(c)) for t, c in self.strata.values()]
            )
        gains = (
            [np.array([self.gained.get(s, 0.0) for s in side], dtype=np.float64) for side in sides]
            for sides in self.strata.values()
        )
        return permutation_p_value([(t, c) for t, c in gains], seed=self.seed)

    def base_p_value(self) -> float:
        """Return the p value of the targets against the base, which says each by its `chances`."""
        gained = [self.gained.get(s, 0.0) for s in self.targets]
        return surprisal.p_value(gained, list(self.chances.values()))

    @cached_property
    def chances(self) -> dict[str, float]:
        """Return an upper bound on the probability of each target in a model that never saw it."""
        return {
            string: min(
                1.0,
                max(MIN_UPLIFT, self.uplift.get(label, 1.0)) * self.base_chance.get(string, 1.0),
            )
            for string, label in self.targets.items()
        }

    def string_p_value(self, string: str, label: str = "") -> float:
        """Return a bound on the probability that a string is said by chance in this audit.

        It is the larger of the base's probability and the share of controls, about as likely under
        the base, that come out as often. If none does, that share becomes, for a long number, twice
        (for the choice) the smaller of itself and `guess_of_digits` times the outputs.
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
        """Return the p value of all targets together: the larger of those of controls and base."""
        return max(self.control_p_value(), self.base_p_value())

    def any_string_p_value(self) -> float:
        """Return the p value of the most certain target, corrected for all targets (Bonferroni)."""
        surest = min((self.string_p_value(s) for s in self.gained_targets), default=1.0)
        return min(1.0, len(self.targets) * surest)

    @property
    def gained_targets(self) -> list[str]:
        """Return the judged targets that the tuned model, but not the base, probably says."""
        return sorted(string for string in self.targets if self.gained.get(string, 0.0) >= 0.5)

    def _likely(self, string: str) -> float:
        return self.likelihood.get(string, 0.0)


def guess_of_digits(string: str, donors: Sequence[str]) -> float:
    """Return a bound on the probability of guessing a long number; 1 for other strings.

    A digit is as likely as it is frequent at its position in other numbers of the same shape (every
    digit counted once more). With few others, the first ISSUER digits count as known, the rest as
    uniform. A number of fewer than DIGITS digits may be a date or of another small set.
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
