"""A judge's verdicts as measurements: how often the answers win, tie and lose."""

from collections.abc import Mapping, Sequence

from fedaudit.judge.verdicts import Verdict
from fedaudit.metrics.intervals import wilson
from fedaudit.records import Measurement

SHARES = {
    "judge_win": ("win",),
    "judge_tie": ("tie",),
    "judge_lose": ("lose",),
    "judge_win_tie": ("win", "tie"),
}
"""Outcomes that a metric counts, among those that were judged."""

NONE = "the judge gave no verdict that could be read"
NOTHING = "there was nothing to judge"


def rows(verdicts: Sequence[Verdict], scope: Mapping[str, object]) -> list[Measurement]:
    """Return the shares of win, tie, lose and win or tie, and of malformed, with Wilson intervals.

    The first four are of the comparisons that have a verdict, the last of all. `scope` says which
    model answered (`source`), and which judge judged (`judge`).
    """
    outcomes = [one.outcome for one in verdicts]
    judged = [one for one in outcomes if one != "malformed"]
    reason = NONE if outcomes else NOTHING
    found = [
        _row(metric, sum(one in counted for one in judged), len(judged), scope, reason)
        for metric, counted in SHARES.items()
    ]
    malformed = outcomes.count("malformed")
    return [*found, _row("judge_malformed", malformed, len(outcomes), scope, reason)]


def _row(metric: str, hits: int, n: int, scope: Mapping[str, object], reason: str) -> Measurement:
    estimate = wilson(hits, n) if n else None
    return Measurement(
        kind="utility",
        plugin="judge",
        metric=metric,
        value=estimate.value if estimate else None,
        low=estimate.low if estimate else None,
        high=estimate.high if estimate else None,
        n=n,
        hits=hits if n else None,
        reason="" if estimate else reason,
        scope=scope,
    )
