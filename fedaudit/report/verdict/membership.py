"""The verdict on membership: whether trained records can be told from others."""

from collections.abc import Iterable, Sequence

from fedaudit.api.records import Measurement
from fedaudit.report.number_format import as_percent
from fedaudit.report.verdict.criteria import DEFAULT, Policy
from fedaudit.report.verdict.judgement import Judgement

RULE = "membership"
KIND, SCORE, FPR = "membership", "reference", 0.01
"""The judged score, fixed in advance, and the false-positive rate at which it is evaluated."""
OWN_RECORDS = "own"
LEAST_P, BY_GROUP = "least_p_value", "tpr_by_group"
LOW_RANKS = "low ranks"
"""scope.test of whether members score lower than held-out records, which training does not do."""


def judge_membership(
    measurements: Iterable[Measurement], policy: Policy = DEFAULT
) -> list[Judgement]:
    """Return the status of every comparison of members with held-out records, and why.

    The score is `reference`. One test is of ranks, the other of the members above the threshold
    that 1 % of held-out records reach (rows `p_value`); Holm's correction is over both tests and
    all comparisons.

    * fail          an adjusted p value is at most the policy's level
    * inconclusive  something is missing; or members score so much lower than held-out records
                    (p at most the policy's level, without correction) that the sets differ in
                    something else than training; or too few groups of records were compared for
                    any p value to be that low; or the share of members recognised at 1 % may be
                    more than the policy's detectable leak, with either records or their groups as
                    independent
    * pass          otherwise

    Reports of versions without these tests have nothing to judge. In reports without the rows of
    groups, only the interval over records counts.
    """
    from fedaudit.metrics.attribution.stouffer import holm

    rows = [
        row
        for row in measurements
        if row.kind == KIND
        and row.scope.get("score") == SCORE
        and row.scope.get("records") != OWN_RECORDS
    ]
    tests = [row for row in rows if row.metric == "p_value" and row.scope.get("test") != LOW_RANKS]
    groups = {
        _attack_key(row): [r for r in tests if _attack_key(r) == _attack_key(row)] for row in tests
    }
    every = [(key, row) for key, group in groups.items() for row in group]
    missing = {key for key, row in every if row.value is None}
    adjusted = holm([1.0 if row.value is None else row.value for _, row in every])
    return [
        _judge(
            group,
            [p for (k, _), p in zip(every, adjusted, strict=True) if k == key],
            [row for row in rows if row not in tests and _attack_key(row) == key],
            policy,
            missing=key in missing,
            needed=policy.level / len(every),
        )
        for key, group in groups.items()
    ]


_OF_ROWS = {"test", "fpr", "groups", "beside"}
"""The scope keys in which the rows of one comparison differ."""


def _attack_key(row: Measurement) -> tuple[str, ...]:
    scope = ((k, str(v)) for k, v in row.scope.items() if k not in _OF_ROWS)
    return (row.plugin, *(f"{key} {value}" for key, value in sorted(scope)))


def _judge(
    tests: Sequence[Measurement],
    adjusted: Sequence[float],
    bounds: Sequence[Measurement],
    policy: Policy,
    *,
    missing: bool,
    needed: float,
) -> Judgement:
    status, reason = _status(tests, adjusted, bounds, policy, missing=missing, needed=needed)
    limit = (
        f"members told from held-out records no better than by chance, at p = {policy.level:g}, "
        f"and surely less than {as_percent(FPR + policy.detectable)} of them above the score that "
        f"{FPR:.0%} of held-out records reach"
    )
    return Judgement(status, reason, RULE, tests[0], limit)


def _status(
    tests: Sequence[Measurement],
    adjusted: Sequence[float],
    bounds: Sequence[Measurement],
    policy: Policy,
    *,
    missing: bool,
    needed: float,
) -> tuple[str, str]:
    name, n = tests[0].plugin, tests[0].n or 0
    if missing:
        why = next(row.reason for row in tests if row.value is None)
        return "inconclusive", f"{name}: records were not told from others: {why}."
    if min(adjusted) <= policy.level:
        return "fail", (
            f"{name}: {n:,} records can be told from held-out ones by how much better the model "
            f"knows them than its base (p = {min(adjusted):.2g})."
        )
    if why := _low_ranks(bounds, policy.level) or _too_few_groups(bounds, needed):
        return "inconclusive", f"{name}: {why}"
    at_rate = [row for row in bounds if row.scope.get("fpr") == FPR]
    rate = next((row for row in at_rate if row.metric == "tpr"), None)
    if rate is None or rate.value is None or rate.high is None:
        why = rate.reason if rate else "no rate at 1 % is there"
        return "inconclusive", f"{name}: how many records can be told is not known: {why}."
    high = max(row.high for row in at_rate if row.high is not None)
    summary = (
        f"{name}: {rate.hits or 0:,} of {n:,} records score above what {FPR:.0%} of held-out "
        f"ones reach, at most {high:.2%}"
    )
    if high > FPR + policy.detectable:
        return "inconclusive", (
            f"{summary}: too few records to see whether {as_percent(FPR + policy.detectable)} can "
            "be told."
        )
    return "pass", f"{summary}, no more than chance may give."


def _low_ranks(bounds: Sequence[Measurement], level: float) -> str:
    """Return a note if members score lower than held-out records; empty if chance may."""
    row = next((row for row in bounds if row.scope.get("test") == LOW_RANKS), None)
    if row is None or row.value is None or row.value > level:
        return ""
    return (
        f"the model knows these {row.n or 0:,} records worse than held-out ones (p = "
        f"{row.value:.2g}), which training does not do: the two sets differ in something else, "
        "such as form, source or time, which may hide what was learnt."
    )


def _too_few_groups(bounds: Sequence[Measurement], needed: float) -> str:
    """Return a note if no test can fail with so few groups; empty if one can, or if unknown."""
    least = next((row for row in bounds if row.metric == LEAST_P), None)
    if least is None or least.value is None or least.value <= needed:
        return ""
    groups = " and ".join(f"{least.scope.get(side, 0)}" for side in ("groups", "beside"))
    return (
        f"{groups} groups of members and held-out records are too few to tell: no p value can be "
        f"below {least.value:.2g}, and {needed:.2g} is needed."
    )
