"""The verdict on membership under a policy's limit: how many members may be recognised at most."""

from collections.abc import Iterable

from fedaudit.api.records import Measurement
from fedaudit.report.verdict.criteria import Policy
from fedaudit.report.verdict.extraction import Test
from fedaudit.report.verdict.judgement import Judgement

KIND, RULE = "membership", "membership limit"


def limit_tests(
    measurements: Iterable[Measurement], policy: Policy
) -> list[tuple[Measurement, Test | None]]:
    """Return every score's true-positive rate at the policy's false-positive rate, and its test.

    The null is that each member is recognised with the probability that is allowed: p is
    P(Binomial(n, limit) >= hits). The threshold is taken as given. Nothing where the policy has no
    limit.
    """
    if policy.membership is None:
        return []
    rows = [
        row
        for row in measurements
        if (row.kind, row.metric, row.scope.get("source")) == (KIND, "tpr", "tuned")
        and row.scope.get("fpr") == policy.membership_fpr
    ]
    return [(row, _test(row, policy.membership)) for row in rows]


def judge_limit(
    row: Measurement, test: Test | None, adjusted: float | None, policy: Policy
) -> Judgement:
    """Return the status of one score.

    * fail          the adjusted p value is at most the policy's level
    * pass          the one-sided upper bound is at most the limit
    * inconclusive  otherwise, or it could not be measured
    """
    from fedaudit.metrics.significance import upper_bound

    most = policy.membership or 0.0
    limit = (
        f"at most {most:.4g} of the members recognised at a false-positive rate of "
        f"{policy.membership_fpr:g}"
    )
    name = f"membership (score {row.scope.get('score', '')})"
    if test is None or adjusted is None or row.hits is None or not row.n:
        reason = f"{name}: not measured: {row.reason or 'members were not counted'}."
        return Judgement("inconclusive", reason, RULE, row, limit)
    summary = f"{name}: {test.subject}"
    if adjusted <= policy.level:
        reason = f"{summary}, more than {most:.2%} (p = {adjusted:.2g})."
        return Judgement("fail", reason, RULE, row, limit)
    bound = upper_bound(row.hits, row.n, 1 - policy.confidence)
    if bound <= most:
        return Judgement("pass", f"{summary}, surely no more than {bound:.2%}.", RULE, row, limit)
    reason = f"{summary}, perhaps up to {bound:.2%}: too few to show that it is at most {most:.2%}."
    return Judgement("inconclusive", reason, RULE, row, limit)


def _test(row: Measurement, most: float) -> Test | None:
    from scipy.stats import binom

    if row.hits is None or not row.n or not 0 <= row.hits <= row.n:
        return None
    subject = (
        f"{row.hits:,} of {row.n:,} members are recognised at a false-positive rate of "
        f"{row.scope['fpr']:g}"
    )
    p = float(binom.sf(row.hits - 1, row.n, most))
    name = f"membership (score {row.scope.get('score', '')})"
    return Test(name, max(p, 1e-300), subject, "more than is allowed")
