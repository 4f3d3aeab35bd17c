"""The verdict on memorization: whether one client's prefixes draw another client's texts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fedaudit.api.kind import Judgement
from fedaudit.api.policy import Policy
from fedaudit.api.records import Measurement
from fedaudit.report.number_format import as_percent
from fedaudit.report.verdict.binomial_limit import binomial_p_value
from fedaudit.report.verdict.criteria import DEFAULT

RULE = "memorization"
PAIR_LEVEL_SHARE = 0.5
"""The share of the policy's level at which all pairs of clients together are tested.

The rule for the mean, that two intervals do not overlap, uses less than the rest of the level.
"""
PAIR = ("attacker", "victim")
"""The scope keys that name an ordered pair of clients."""


@dataclass(frozen=True, slots=True)
class PairTest:
    """How many of one client's prefixes draw another's texts from the tuned model and the base."""

    row: Measurement
    base: Measurement
    p: float
    """The p value of so many more prefixes than the base's, after Holm over all pairs."""

    def summary(self) -> str:
        """Return what was counted, in words."""
        attacker, victim = (self.row.scope[name] for name in PAIR)
        return (
            f"{self.row.hits:,} of {self.row.n:,} prefixes of {attacker} draw something of "
            f"{victim}'s texts, {self.base.hits:,} of {self.base.n:,} from the base"
        )

    def may_exceed(self, policy: Policy) -> bool:
        """Tell whether the upper bound of the share drawn is above what the policy allows.

        The bound is Clopper and Pearson's, one-sided.
        """
        from fedaudit.metrics.significance import upper_bound

        allowed = max(policy.memorization, policy.detectable)
        high = upper_bound(self.row.hits or 0, self.row.n or 0, 1 - policy.confidence)
        return high > (self.base.value or 0.0) + allowed


def judge_memorization(
    measurements: Iterable[Measurement], policy: Policy = DEFAULT
) -> list[Judgement]:
    """Return the status of every mr_inter of the tuned model, over all categories, and why.

    With many clients, the mean hides what one client draws of a single other one. So each ordered
    pair of clients is judged as well (`mr_pair`), if the report has the counts.

    * fail          the lower bound of the mean exceeds the base's upper bound by more than the
                    policy allows; or one client's prefixes draw more of another's texts than the
                    base does, after Holm over all pairs at half of the policy's level
    * inconclusive  there is no number or no base; the lower bound is above the base's value but
                    not above its upper bound; or the upper bound of the mean or of a pair is above
                    the base by more than the policy's detectable leak: too few prefixes to see one
    * pass          otherwise

    Texts that a client's own prefixes draw are not judged: they are not exposed to other clients.
    """
    ratios = [
        row
        for row in measurements
        if row.kind == "memorization" and row.scope.get("category") == "all"
    ]
    rows = [row for row in ratios if row.metric == "mr_inter"]
    pairs = pair_tests(ratios, policy)
    shown = max(policy.memorization, policy.detectable)
    limit = (
        f"at most {as_percent(policy.memorization)} above the base, which is to be shown within "
        f"{as_percent(shown)}, for each pair of clients as well"
    )
    return [
        Judgement(*_judge_with_pairs(row, rows, tests_of(row, pairs), policy), RULE, row, limit)
        for row in rows
        if row.scope.get("source") == "tuned"
    ]


def _judge_with_pairs(
    row: Measurement, rows: Sequence[Measurement], pairs: Sequence[PairTest], policy: Policy
) -> tuple[str, str]:
    status, reason = _judge(row, rows, policy)
    worst = min(pairs, key=lambda pair: pair.p, default=None)
    measured = row.value is not None and _base(row, rows) is not None
    if status == "fail" or worst is None or not measured:
        return status, reason
    if worst.p <= policy.level * PAIR_LEVEL_SHARE:
        return "fail", f"{_name(row)}: {worst.summary()} (p = {worst.p:.2g})."
    unsure = [pair for pair in pairs if pair.may_exceed(policy)]
    if status == "pass" and unsure:
        return "inconclusive", (
            f"{_name(row)}: {unsure[0].summary()}: too few prefixes to tell that from a leak; "
            f"so for {len(unsure):,} of {len(pairs):,} pairs of clients."
        )
    return status, reason


def _name(row: Measurement) -> str:
    return f"{row.plugin} ({_scope_text(row.scope)})" if _scope_text(row.scope) else row.plugin


def _judge(row: Measurement, rows: Sequence[Measurement], policy: Policy) -> tuple[str, str]:
    name = _name(row)
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
    """Return the base's row for the same prefixes."""
    same = {**row.scope, "source": "base"}
    fits = [r for r in rows if r.plugin == row.plugin and dict(r.scope) == same]
    return max(fits, key=lambda r: r.high or 0.0, default=None)


def _scope_text(scope: Mapping[str, object]) -> str:
    entries = ((key, value) for key, value in scope.items() if key not in ("source", "category"))
    return ", ".join(f"{key} {value}" for key, value in entries)


def pair_tests(rows: Sequence[Measurement], policy: Policy) -> list[PairTest]:
    """Return the test of every ordered pair of clients measured on both the tuned model and base.

    The null hypothesis is that the tuned model draws no more than its base. The p value is that of
    Fisher's test, which is conservative if both models answer alike. If the policy allows some
    memorization, it is the larger of that and of the binomial test against the allowed amount above
    the base's upper bound.
    """
    from fedaudit.metrics.attribution.stouffer import holm

    pairs = [row for row in rows if row.metric == "mr_pair" and _is_counted(row)]
    bases = {_key(row): row for row in pairs if row.scope.get("source") == "base"}
    tuned = [
        row
        for row in pairs
        if row.scope.get("source") == "tuned"
        and len({str(row.scope.get(name)) for name in PAIR}) == 2
    ]
    compared = [(row, base) for row in tuned if (base := bases.get(_key(row)))]
    adjusted = holm([_p(row, base, policy) for row, base in compared])
    return [PairTest(*pair, p) for pair, p in zip(compared, adjusted, strict=True)]


def tests_of(row: Measurement, tests: Sequence[PairTest]) -> list[PairTest]:
    """Return the tests of those pairs whose mean is `row`."""
    return [test for test in tests if _mean_scope(test.row) == (row.plugin, dict(row.scope))]


def _mean_scope(row: Measurement) -> tuple[str, dict[str, object]]:
    return row.plugin, {name: value for name, value in row.scope.items() if name not in PAIR}


def _is_counted(row: Measurement) -> bool:
    """Tell whether a row has counts, and no more hits than prefixes."""
    return row.n is not None and row.hits is not None and 0 <= row.hits <= row.n > 0


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
