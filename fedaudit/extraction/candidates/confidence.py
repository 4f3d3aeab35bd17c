"""The probability that a candidate is true, calibrated on the attacker's own strings.

Other members' strings were trained on in the same way as the attacker's own. So the attacker's own
strings, where the model says them after prompts of other documents, show the scores of true
candidates. Slips, which are other outputs that begin like one of the attacker's own strings, show
the scores of false ones.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from fedaudit.extraction.candidates.junk_filter import first_word
from fedaudit.extraction.candidates.observations import Key
from fedaudit.extraction.candidates.support import Support
from fedaudit.metrics.calibration import (
    DRAWS,
    LabelledScores,
    Logistic,
    fit,
    resampled_probabilities,
)
from fedaudit.metrics.intervals import Estimate

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MIN_LABELLED = 5
"""The minimum number of own strings, and of slips, to learn a kind's probability by score."""

Scored = tuple[str, float]
"""A candidate's label and score."""


@dataclass(frozen=True)
class KindConfidence:
    """The calibration for one kind of PII, from labelled scores; the attacker's own are true."""

    labelled_scores: LabelledScores

    @property
    def true(self) -> int:
        """Return the number of the attacker's own strings that came out after other prompts."""
        return sum(self.labelled_scores.truths)

    @property
    def false(self) -> int:
        """Return the number of slips."""
        return len(self.labelled_scores.truths) - self.true

    @cached_property
    def curve(self) -> Logistic | None:
        """Return the probability by score; None with few labels, or if it does not rise."""
        if min(self.true, self.false) < MIN_LABELLED:
            return None
        logistic = fit(self.labelled_scores)
        return logistic if logistic.slope > 0 else None


@dataclass(frozen=True)
class Confidence:
    """The calibration of every kind of PII, or the reason why there is none."""

    kinds: Mapping[str, KindConfidence] = field(default_factory=dict)
    reason: str = ""

    def probability(self, candidate: Scored) -> float | None:
        """Return the probability that a candidate is true; None if its kind has no calibration."""
        label, score = candidate
        curve = self.kinds[label].curve if label in self.kinds and not self.reason else None
        return None if curve is None else float(curve.probabilities([score])[0])

    def precision(
        self, candidates: Sequence[Scored], tops: Sequence[int], *, seed: int
    ) -> list[Estimate]:
        """Return the expected share of true strings among the first k candidates, k in `tops`.

        All of them are of kinds with a calibration. The 95 % interval is that of the share, not of
        its mean: the labelled strings are resampled, and each candidate is then drawn as true or
        false with its probability.
        """
        import numpy as np

        most = candidates[: max(tops, default=0)]
        means = np.array([self.probability(one) for one in most], dtype=np.float64)
        draws = np.empty((DRAWS, len(most)))
        for number, label in enumerate(sorted({label for label, _ in most})):
            columns = [i for i, (kind, _) in enumerate(most) if kind == label]
            draws[:, columns] = resampled_probabilities(
                self.kinds[label].labelled_scores,
                [most[i][1] for i in columns],
                seed=seed + number,
            )
        luck = np.random.default_rng(seed).random(draws.shape) < draws
        shares = {top: luck[:, :top].mean(axis=1) for top in tops}
        return [_estimate(float(means[:top].mean()), shares[top]) for top in tops]


def fit_confidence(
    own_strings: Mapping[Key, Support], other_strings: Mapping[Key, Support], all_own: Iterable[Key]
) -> Confidence:
    """Return the calibration by kind, learnt from the attacker's own strings and from slips.

    `own_strings` came out after prompts of other documents, `other_strings` are all other
    candidates, and `all_own` are all of the attacker's strings, whether they came out or not.
    """
    heads = {(first_word(text), label) for text, label in all_own}
    slips = {
        key: support
        for key, support in other_strings.items()
        if (first_word(key[0]), key[1]) in heads
    }
    rows: dict[str, list[tuple[float, bool, str]]] = defaultdict(list)
    for strings, truth in ((own_strings, True), (slips, False)):
        for (text, label), support in sorted(strings.items()):
            rows[label].append((support.score, truth, first_word(text)))
    kinds = {label: _kind(group) for label, group in sorted(rows.items())}
    return Confidence(kinds, "" if any(kind.curve for kind in kinds.values()) else _lacking(kinds))


def _kind(rows: Sequence[tuple[float, bool, str]]) -> KindConfidence:
    scores, truths, groups = zip(*rows, strict=True)
    return KindConfidence(LabelledScores(tuple(scores), tuple(truths), tuple(groups)))


def _lacking(kinds: Mapping[str, KindConfidence]) -> str:
    true = max((kind.true for kind in kinds.values()), default=0)
    if true < MIN_LABELLED:
        return (
            f"of no kind did more than {true} of the attacker's own strings come out behind "
            f"prompts of its other documents; it takes {MIN_LABELLED} to learn how the model says "
            "true ones"
        )
    return (
        f"of the kinds whose own strings came out, fewer than {MIN_LABELLED} false ones begin like "
        "them, or the model says these as readily"
    )


def _estimate(value: float, shares: "npt.NDArray[np.float64]") -> Estimate:
    import numpy as np

    low, high = (float(x) for x in np.quantile(shares, (0.025, 0.975)))
    return Estimate(value, min(value, low), max(value, high))
