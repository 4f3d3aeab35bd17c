"""The verdict on memorization, pair by pair: one client's prefixes, and another's texts."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedaudit.api.records import Measurement
from fedaudit.report.verdict.binomial_limit import binomial_p_value
from fedaudit.report.verdict.criteria import Policy

PAIR = ("attacker", "victim")


@dataclass(frozen=True, slots=True)
class PairTest:
    """What the prefixes of one client draw of another's texts, beside the base."""

    row: Measurement
    base: Measurement
    p: float
    """Of so many more prefixes than the base's, adjusted after Holm over all pairs of a report."""

    def summary(self) -> str:
        """Return what was counted, in words."""
        attacker, victim = (self.row.scope[name] for name in PAIR)
        return (
            f"{self.row.hits:,} of {self.row.n:,} prefixes of {attacker} draw something of "
            f"{victim}'s texts, {self.base.hits:,} of {self.base.n:,} from the base"
        )

    def too_few(self, policy: Policy) -> bool:
        """Tell whether more than the policy allows may be drawn, as far as the prefixes show.

        The upper bound is Clopper and Pearson's, one-sided.
        """
        from fedaudit.metrics.significance import upper_bound

        allowed = max(policy.memorization, policy.detectable)
        high = upper_bound(self.row.hits or 0, self.row.n or 0, 1 - policy.confidence)
        return high > (self.base.value or 0.0) + allowed


def pair_tests(rows: Sequence[Measurement], policy: Policy) -> list[PairTest]:
    """Return the test of every ordered pair of clients that was measured, and asked of the base.

    The null is that the tuned model draws no more than its base does. The p value is Fisher's,
    which is cautious where both models answer alike; and where the policy allows some memorization,
    the larger of it and of the binomial against that much above the base's upper bound.
    """
    from fedaudit.metrics.attribution.stouffer import holm

    pairs = [row for row in rows if row.metric == "mr_pair" and row.hits is not None and row.n]
    bases = {_key(row): row for row in pairs if row.scope.get("source") == "base"}
    tuned = [
        row
        for row in pairs
        if row.scope.get("source") == "tuned" and len({row.scope.get(name) for name in PAIR}) == 2
    ]
    compared = [(row, base) for row in tuned if (base := bases.get(_key(row)))]
    adjusted = holm([_p(row, base, policy) for row, base in compared])
    return [PairTest(*pair, p) for pair, p in zip(compared, adjusted, strict=True)]


def tests_of(row: Measurement, tests: Sequence[PairTest]) -> list[PairTest]:
    """Return the tests of those pairs whose mean is `row`."""
    return [test for test in tests if _mean_scope(test.row) == (row.plugin, dict(row.scope))]


def _mean_scope(row: Measurement) -> tuple[str, dict[str, object]]:
    return row.plugin, {name: value for name, value in row.scope.items() if name not in PAIR}


def _key(row: Measurement) -> tuple[object, ...]:
    scope = ((name, str(value)) for name, value in row.scope.items() if name != "source")
    return (row.plugin, *sorted(scope))


def _p(row: Measurement, base: Measurement, policy: Policy) -> float:
    from fedaudit.metrics.significance import Stratum, stratified_p_value

    counts = (row.hits or 0, row.n or 0, base.hits or 0, base.n or 0)
    p = stratified_p_value([Stratum(*counts)])
    if policy.memorization:
        most = (1.0 if base.high is None else base.high) + policy.memorization
        p = max(p, binomial_p_value(counts[0], counts[1], min(1.0, most)))
    return p
