"""The verdict on memorization: whether one client's prefixes draw another client's texts."""

from collections.abc import Iterable, Mapping, Sequence

from fedaudit.api.records import Measurement
from fedaudit.report.verdict.criteria import DEFAULT, Policy
from fedaudit.report.verdict.judgement import Judgement

RULE = "memorization"


def judge_memorization(
    measurements: Iterable[Measurement], policy: Policy = DEFAULT
) -> list[Judgement]:
    """Return the status of every mr_inter of the tuned model, over all categories, and why.

    * fail          its lower bound is above the base's upper bound, by more than the policy allows
    * inconclusive  no number, no base, a lower bound above the base's value only, or an upper bound
                    that is further above it than the policy's detectable leak: with so few prefixes
                    one would not have been seen
    * pass          otherwise

    What a client's own prefixes draw is not judged: it is exposed, but not to other clients.
    """
    rows = [
        row
        for row in measurements
        if (row.kind, row.metric) == ("memorization", "mr_inter")
        and row.scope.get("category") == "all"
    ]
    limit = f"at most {policy.memorization:.4g} above the base, which is to be shown within "
    limit += f"{max(policy.memorization, policy.detectable):.4g}"
    return [
        Judgement(*_judge(row, rows, policy), RULE, row, limit)
        for row in rows
        if row.scope.get("source") == "tuned"
    ]


def _judge(row: Measurement, rows: Sequence[Measurement], policy: Policy) -> tuple[str, str]:
    name = f"{row.plugin} ({_scope_text(row.scope)})" if _scope_text(row.scope) else row.plugin
    if row.value is None or row.low is None or row.high is None:
        why = row.reason or "it has no interval"
        return "inconclusive", f"{name}: memorization between clients was not measured: {why}."
    summary = (
        f"{name}: {row.value:.2%} of a client's prefixes draw something of another client's texts"
        f" from the tuned model (at least {row.low:.2%}, at most {row.high:.2%})"
    )
    base = _base(row, rows)
    if base is None or base.value is None or base.high is None:
        return "inconclusive", f"{summary}, but there is no base to compare with."
    if row.low > base.high + policy.memorization:
        return "fail", f"{summary}, more than from its base (at most {base.high:.2%})."
    if row.low > base.value + policy.memorization:
        return "inconclusive", f"{summary}; its base may give as many (up to {base.high:.2%})."
    if row.high > base.value + max(policy.memorization, policy.detectable):
        return "inconclusive", (
            f"{summary}: too few prefixes to tell that from what its base gives ({base.value:.2%})."
        )
    return "pass", f"{summary}, no more than its base may give (up to {base.high:.2%})."


def _base(row: Measurement, rows: Sequence[Measurement]) -> Measurement | None:
    """Return the base's row of the same prefixes."""
    same = {**row.scope, "source": "base"}
    fits = [r for r in rows if r.plugin == row.plugin and dict(r.scope) == same]
    return max(fits, key=lambda r: r.high or 0.0, default=None)


def _scope_text(scope: Mapping[str, object]) -> str:
    entries = ((key, value) for key, value in scope.items() if key not in ("source", "category"))
    return ", ".join(f"{key} {value}" for key, value in entries)
