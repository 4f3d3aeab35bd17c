"""The verdict on a count under a policy's limit, by the binomial test and its upper bound."""

from fedaudit.api.kind import Judgement
from fedaudit.api.policy import Policy
from fedaudit.api.records import Measurement

SMALLEST = 1e-300


def binomial_p_value(hits: int, n: int, probability: float) -> float:
    """Return the p value P(Binomial(n, probability) >= hits), which is never 0."""
    from fedaudit.metrics.significance import binomial_tail

    return max(binomial_tail(hits, n, probability), SMALLEST)


def judge_count(
    row: Measurement,
    summary: str,
    adjusted: float,
    policy: Policy,
    *,
    most: float,
    rule: str,
    limit: str,
) -> Judgement:
    """Return the status of a counted row whose share may be at most `most`.

    * fail          the adjusted p value is at most the policy's level
    * pass          the one-sided upper bound is at most the limit
    * inconclusive  otherwise: there are too few targets to show it

    `summary` says what was counted, `rule` and `limit` are the judgement's. Raises ValueError for
    a row without counts.
    """
    from fedaudit.metrics.significance import upper_bound

    if row.hits is None or not row.n:
        raise ValueError(f"{row.metric} has no counts.")
    if adjusted <= policy.level:
        reason = f"{summary}, more than {most:.2%} (p = {adjusted:.2g})."
        return Judgement("fail", reason, rule, row, limit)
    bound = upper_bound(row.hits, row.n, 1 - policy.confidence)
    if bound <= most:
        return Judgement("pass", f"{summary}, surely no more than {bound:.2%}.", rule, row, limit)
    reason = f"{summary}, perhaps up to {bound:.2%}: too few to show that it is at most {most:.2%}."
    return Judgement("inconclusive", reason, rule, row, limit)
