"""The mean likelihood of a string after prompts for its kind, under a model and its base."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, log

from fedaudit.api.plugin import AttackContext
from fedaudit.api.records import Target
from fedaudit.extraction.candidates.observations import Key, StringObservation
from fedaudit.extraction.candidates.origins import Prompt
from fedaudit.metrics.log_probabilities import log_mean_exp

GAIN_WEIGHT = 0.5
"""The weight of a nat of gain over the base, relative to a nat of likelihood."""


@dataclass(frozen=True, slots=True)
class Support:
    """The ln of a string's mean probability after prompts for its kind, under both models."""

    tuned: float
    base: float | None
    outputs: int = 1
    """How often the string was drawn."""

    @property
    def gain(self) -> float | None:
        """Return ln p under the tuned model minus ln p under the base; None without a base.

        It is 0 if the string is impossible under both, where both logarithms are -inf.
        """
        if self.base is None:
            return None
        return 0.0 if self.tuned == self.base else self.tuned - self.base

    @property
    def score(self) -> float:
        """Return the score of a candidate in nats: ln p + GAIN_WEIGHT x gain + ln(outputs).

        It is rounded to four digits, so that floating-point errors do not change the ranking.
        """
        return round(self.tuned + GAIN_WEIGHT * (self.gain or 0.0) + log(self.outputs), 4)

    @property
    def is_likelier(self) -> bool:
        """Tell whether the string is likelier than under the base; true without a base."""
        return self.gain is None or self.gain > 0


def measure_support(
    context: AttackContext,
    prompts: Mapping[str, Sequence[Prompt]],
    observations: Mapping[Key, StringObservation],
    behind: Mapping[Key, Collection[Prompt]],
) -> dict[Key, Support]:
    """Return the support of each observed string after the prompts for its label.

    A string in `behind` is only scored after those of the prompts that are listed there, and is
    left out if there is none.
    """
    by_label: dict[str, list[str]] = defaultdict(list)
    for text, label in sorted(observations):
        by_label[label].append(text)
    supports: dict[Key, Support] = {}
    for label, texts in by_label.items():
        keys = [(text, label) for text in texts]
        ids = [
            t.ids
            for t in context.engine.tokenize([observations[key].lead + key[0] for key in keys])
        ]
        tuned = _likelihoods(context, context.tuned, prompts[label], ids)
        base = _likelihoods(context, context.base, prompts[label], ids) if context.base else []
        for column, key in enumerate(keys):
            rows = [i for i, p in enumerate(prompts[label]) if p in behind.get(key, (p,))]
            if rows:
                means = [
                    log_mean_exp([matrix[row][column] for row in rows])
                    for matrix in (tuned, base)
                    if matrix
                ]
                supports[key] = Support(
                    means[0], means[1] if base else None, observations[key].outputs
                )
    return supports


def _likelihoods(
    context: AttackContext,
    target: Target,
    prompts: Sequence[Prompt],
    ids: Sequence[tuple[int, ...]],
) -> list[list[float]]:
    """Return ln p of each string after each prompt, (prompts, strings)."""
    groups = [[(*prompt, *tokens) for tokens in ids] for prompt in prompts]
    scores = context.engine.score_groups(target, groups)
    return [
        [fsum(row[len(row) - len(tokens) :]) for row, tokens in zip(group, ids, strict=True)]
        for group in scores
    ]
