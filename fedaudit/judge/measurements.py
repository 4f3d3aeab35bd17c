"""A judge's verdicts as measurements: how often the answers win, tie and lose."""

from collections.abc import Mapping, Sequence

from fedaudit.api.records import Measurement
from fedaudit.judge.verdicts import JudgeVerdict

SHARES = {
    "judge_win": ("win",),
    "judge_tie": ("tie",),
    "judge_lose": ("lose",),
    "judge_win_tie": ("win", "tie"),
}
"""Outcomes that a metric counts, among those that were judged."""

NONE = "the judge gave no verdict that could be read"
NOTHING = "there was nothing to judge"


def rows(verdicts: Sequence[JudgeVerdict], scope: Mapping[str, object]) -> list[Measurement]:
    """Return the shares of win, tie, lose and win or tie, and of malformed, with Wilson intervals.

    The first four are of the comparisons that have a verdict, the last of all. `scope` says which
    model answered (`source`), and which judge judged (`judge`).
    """
    outcomes = [verdict.outcome for verdict in verdicts]
    valid_outcomes = [outcome for outcome in outcomes if outcome != "malformed"]
    reason = NONE if outcomes else NOTHING
    counts = {
        metric: (sum(outcome in counted for outcome in valid_outcomes), len(valid_outcomes))
        for metric, counted in SHARES.items()
    }
    counts["judge_malformed"] = outcomes.count("malformed"), len(outcomes)
    return [
        Measurement.rate(
            hits, n, kind="utility", plugin="judge", metric=metric, scope=scope, reason=reason
        )
        for metric, (hits, n) in counts.items()
    ]
