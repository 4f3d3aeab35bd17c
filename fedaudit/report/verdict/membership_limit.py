"""The verdict on membership under a policy's limit: how many members may be recognised at most."""

from collections.abc import Iterable, Iterator, Sequence

from fedaudit.api.records import Measurement
from fedaudit.report.number_format import as_percent
from fedaudit.report.verdict.binomial_limit import binomial_p_value, judge_count
from fedaudit.report.verdict.criteria import Policy
from fedaudit.report.verdict.judgement import Judgement
from fedaudit.report.verdict.leak import Test

KIND, RULE = "membership", "membership limit"


def limit_tests(
    measurements: Iterable[Measurement], policy: Policy
) -> list[tuple[Measurement, Test | None]]:
    """Return every score's true-positive rate at the policy's false-positive rate, and its test.

    Under the null hypothesis each member is recognised with the allowed probability, so p is
    P(Binomial(n, limit) >= hits), which takes the threshold as fixed. But the threshold comes from
    few held-out records, so p is at least the probability of as many members above it if members
    and held-out records are alike. Returns nothing if the policy has no limit.
    """
    if policy.membership is None:
        return []
    rows = [
        row
        for row in measurements
        if (row.kind, row.metric, row.scope.get("source")) == (KIND, "tpr", "tuned")
        and row.scope.get("fpr") == policy.membership_fpr
    ]
    return [(row, _test(row, policy.membership, policy.membership_fpr)) for row in rows]


def judge_limit(
    row: Measurement, test: Test | None, adjusted: float | None, policy: Policy
) -> Judgement:
    """Return the status of one score (`judge_count`); inconclusive where it was not measured."""
    most, limit = policy.membership or 0.0, _limit(policy)
    name = f"membership (score {row.scope.get('score', '')})"
    if test is None or adjusted is None or row.hits is None or not row.n:
        reason = f"{name}: not measured: {row.reason or 'members were not counted'}."
        return Judgement("inconclusive", reason, RULE, row, limit)
    summary = f"{name}: {test.subject}"
    return judge_count(row, summary, adjusted, policy, most=most, rule=RULE, limit=limit)


def missing_limit(
    tests: Sequence[tuple[Measurement, Test | None]], policy: Policy
) -> Iterator[Judgement]:
    """Yield a judgement if the policy limits membership but no such rate was measured."""
    if policy.membership is not None and not tests:
        reason = (
            f"The policy {policy.name} limits membership: how many members are recognised at a "
            f"false-positive rate of {as_percent(policy.membership_fpr)} was not measured."
        )
        yield Judgement("inconclusive", reason, RULE, None, _limit(policy))


def _limit(policy: Policy) -> str:
    return (
        f"at most {as_percent(policy.membership or 0.0)} of the members recognised at a "
        f"false-positive rate of {as_percent(policy.membership_fpr)}"
    )


def _test(row: Measurement, most: float, fpr: float) -> Test | None:
    from fedaudit.metrics.privacy.membership_tests import true_positives_p_value

    if row.hits is None or not row.n or not 0 <= row.hits <= row.n:
        return None
    subject = (
        f"{row.hits:,} of {row.n:,} members are recognised at a false-positive rate of "
        f"{as_percent(fpr)}"
    )
    p = binomial_p_value(row.hits, row.n, most)
    others = row.scope.get("others")
    if isinstance(others, int) and others > 0:
        p = max(p, true_positives_p_value(row.hits, row.n, others, fpr))
    name = f"membership (score {row.scope.get('score', '')})"
    return Test(name, p, subject, "more than is allowed")
