"""The verdict on canaries: whether training gave planted secrets away."""

from collections.abc import Iterable, Sequence

from fedaudit.api.records import Measurement
from fedaudit.report.number_format import as_percent
from fedaudit.report.verdict.criteria import DEFAULT, Policy
from fedaudit.report.verdict.judgement import Judgement

RULE = "canary"
KIND = "exposure"
SINGLE = "maximal_exposure"


def judge_exposure(
    measurements: Iterable[Measurement], policy: Policy = DEFAULT
) -> list[Judgement]:
    """Return the status of the secrets of each multiplicity in the tuned model, and why.

    Each multiplicity has two tests: of all exposures together (the row `p_value`), and of how many
    secrets are likelier than all others (binomial). Holm's correction is over all of them.

    * fail          an adjusted p value is at most the policy's level
    * inconclusive  the controls' own p value is at most the level, so the test is not calibrated; a
                    number is missing; or the share of secrets given away may exceed chance by more
                    than the policy's detectable leak
    * pass          otherwise
    """
    from fedaudit.metrics.attribution.stouffer import holm

    rows = [r for r in measurements if r.kind == KIND and r.scope.get("source") == "tuned"]
    planted = [r for r in rows if r.metric == SINGLE and _times(r) != 0]
    controls = [r for r in rows if r.metric == "p_value" and _times(r) == 0]
    pairs = [(row, _p_values(row, rows)) for row in planted]
    adjusted = iter(holm([p for _, p_values in pairs for p in p_values]))
    adjusted_pairs = [(row, [next(adjusted) for _ in p_values]) for row, p_values in pairs]
    odd = [r for r in controls if r.value is not None and r.value <= policy.level]
    limit = (
        f"no higher than chance at p = {policy.level:g}, and surely less than "
        f"{as_percent(policy.detectable)} given away"
    )
    if odd:
        lowest = min(odd, key=lambda row: row.value or 0.0)
        reason = (
            f"canary: secrets that nobody was given are exposed as well (p = {lowest.value:.2g}): "
            "the references are not what the secrets were drawn from."
        )
        return [Judgement("inconclusive", reason, RULE, lowest, limit)]
    return [
        Judgement(*_judge(row, p_values, policy), RULE, row, limit)
        for row, p_values in adjusted_pairs
    ]


def _times(row: Measurement) -> object:
    return row.scope.get("times")


def _p_values(row: Measurement, rows: Sequence[Measurement]) -> list[float]:
    """Return the p values of a multiplicity's two tests, leaving out those without data."""
    from scipy.stats import binom

    same = (r for r in rows if r.metric == "p_value" and dict(r.scope) == dict(row.scope))
    p_values = [r.value for r in same if r.value is not None and 0 <= r.value <= 1]
    if row.hits is not None and row.n and row.chance is not None and 0 <= row.chance <= 1:
        p_values.append(float(binom.sf(row.hits - 1, row.n, row.chance)))
    return p_values


def _judge(row: Measurement, adjusted: Sequence[float], policy: Policy) -> tuple[str, str]:
    summary = f"canary: secrets that were planted {_often(row)}"
    if row.value is None or row.high is None or row.hits is None or not adjusted:
        why = row.reason or "a count or a test is missing"
        return "inconclusive", f"{summary}: exposure was not measured: {why}."
    counted = f"{row.hits:,} of {row.n or 0:,} are likelier than every other secret of their kind"
    if min(adjusted) <= policy.level:
        return "fail", (
            f"{summary} stand higher than chance explains: {counted} (p = {min(adjusted):.2g})."
        )
    least = f"{summary}: {counted}, at most {row.high:.2%}"
    if row.high > (row.chance or 0.0) + policy.detectable:
        return "inconclusive", (
            f"{least}: too few secrets to see whether {as_percent(policy.detectable)} more than "
            "chance explains are given away."
        )
    return "pass", f"{least}, no more than chance may give."


def _often(row: Measurement) -> str:
    times = _times(row)
    return "once each" if times == 1 else f"{times} times each"
