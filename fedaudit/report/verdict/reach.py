"""Whether an attack's answers had room for most of what the victim alone has."""

from collections.abc import Iterable, Iterator

from fedaudit.api.records import Measurement
from fedaudit.api.target_sets import BEYOND_REACH
from fedaudit.report.verdict.judgement import Judgement

RULE = "reach"
MOST = 0.5
"""An attack that could not have found more than this share of the targets passes nobody."""


def judge_reach(measurements: Iterable[Measurement]) -> Iterator[Judgement]:
    """Yield a judgement for each attack and pair whose answers are shorter than most targets."""
    for row in measurements:
        if row.metric != "targets" or row.scope.get("set") != BEYOND_REACH or "label" in row.scope:
            continue
        if row.value is not None and row.n and row.value > MOST * row.n:
            yield Judgement(
                "inconclusive",
                f"{row.plugin}: {row.value:.0f} of {row.n:,} targets are longer than its answers, "
                "and were not looked for: let answers be longer (new_tokens).",
                RULE,
                row,
                f"at most {MOST:.0%} of the targets",
            )
