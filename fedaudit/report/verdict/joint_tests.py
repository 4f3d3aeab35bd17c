"""Tests whose p values are adjusted together: leaks, guesses, limited kinds of data, and others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedaudit.api.kind import Judgement, Kind, Test
from fedaudit.api.policy import Policy
from fedaudit.api.records import Finding, Measurement
from fedaudit.report.kinds.registry import rows_of
from fedaudit.report.number_format import as_percent
from fedaudit.report.verdict import data_kinds, inference
from fedaudit.report.verdict.extraction import find_leaks
from fedaudit.report.verdict.leak import Leak

EVERYBODY = "all"
"""scope.client of what was pooled over all clients."""


@dataclass(frozen=True, slots=True)
class JointTests:
    """All tests that share the policy's level, each with the row that it tests.

    A row without a test could not be tested; `level` is the share of the policy's level that is
    left for one test.
    """

    leaks: Sequence[Leak]
    guesses: Sequence[tuple[Measurement, Test | None]]
    limited_kinds: Sequence[tuple[Measurement, float, Test | None]]
    by_kind: Sequence[tuple[Kind, Measurement, Test | None]]
    """What the kinds of rows test themselves."""
    tests: Sequence[Test]
    adjusted: Sequence[float]
    level: float

    @property
    def p_by_test(self) -> Mapping[int, float]:
        """The adjusted p value of each test, by its id."""
        return {id(test): p for test, p in zip(self.tests, self.adjusted, strict=True)}

    def judgements(self, policy: Policy) -> list[Judgement]:
        """Return the judgement of every row, whether it was tested here or could not be."""
        p_of = self.p_by_test
        return [
            *_judge_leaks(self, policy),
            *(inference.judge_guess(r, t, p_of.get(id(t)), policy) for r, t in self.guesses),
            *(
                data_kinds.judge_kind(r, most, t, p_of.get(id(t)), policy)
                for r, most, t in self.limited_kinds
            ),
            *(kind.judge_test(r, t, p_of.get(id(t)), policy) for kind, r, t in self.by_kind),
        ]

    def detectable(self, policy: Policy) -> float | None:
        """Return the largest share of targets that could have leaked undetected.

        An attack that could not have seen a leak does not count beside one that passed.
        """
        leaks = (leak for leak, _ in _judged_leaks(self, policy))
        shares = (leak.detectable(self.level, policy) for leak in leaks if not leak.trouble)
        return max(shares, default=None)


def run_joint_tests(
    rows: Sequence[Measurement],
    labelled: Sequence[Measurement],
    findings: Sequence[Finding],
    kinds: Sequence[Kind],
    policy: Policy,
    other_p: Sequence[float],
) -> JointTests:
    """Test `rows`, and those `labelled` whose kind of data has a limit, with one Holm correction.

    `other_p` are the p values of tests made elsewhere that count in the correction.
    """
    from fedaudit.metrics.attribution.stouffer import holm

    leaks = find_leaks(rows, findings, labelled)
    guesses = inference.inference_tests(rows)
    limited_kinds = data_kinds.kind_tests(labelled, policy)
    by_kind = [(k, row, test) for k in kinds for row, test in k.tests(rows_of(k, rows), policy)]
    others = [test for _, test in guesses]
    others += [test for *_, test in limited_kinds] + [test for *_, test in by_kind]
    tests = [test for leak in leaks for test in leak.tests]
    tests += [test for test in others if test is not None]
    return JointTests(
        leaks=leaks,
        guesses=guesses,
        limited_kinds=limited_kinds,
        by_kind=by_kind,
        tests=tests,
        adjusted=holm([*(test.p for test in tests), *other_p])[: len(tests)],
        level=policy.level / max(1, len(tests) + len(other_p)),
    )


def _judged_leaks(joint: JointTests, policy: Policy) -> list[tuple[Leak, Judgement]]:
    """Return each leak with its status, without those that could not be seen beside a pass."""
    allowed = (
        f", more than {as_percent(policy.extraction)} of the targets" if policy.extraction else ""
    )
    limit = (
        f"no leak proven at p = {policy.level:g}{allowed}; a leak of "
        f"{as_percent(policy.max_leak)} would be seen with {as_percent(policy.power)} probability"
    )
    judged_leaks: list[tuple[Leak, Judgement]] = []
    for leak in joint.leaks:
        failed = [(test, joint.p_by_test[id(test)]) for test in leak.tests]
        failed = [(test, p) for test, p in failed if p <= policy.level]
        if failed:
            outcome = _proven_status(leak, failed, policy)
        elif unexplained := [test for test in leak.tests if test.p <= policy.level]:
            outcome = _unexplained_status(leak, unexplained[0], joint)
        else:
            outcome = leak.status_without_leak(joint.level, policy)
        judged_leaks.append((leak, Judgement(*outcome, "leak", leak.row, limit)))
    seen = [_requester(leak.row) for leak, outcome in judged_leaks if outcome.status == "pass"]
    # An attack that could not have seen a leak takes nothing from one that could.
    return [
        (leak, judgement)
        for leak, judgement in judged_leaks
        if not (
            judgement.status == "inconclusive"
            and any(_agree(_requester(leak.row), other) for other in seen)
            and not leak.trouble
            and not leak.shared_hits
            and all(test.p > policy.level for test in leak.tests)
            and leak.is_blind(joint.level, policy)
        )
    ]


def _judge_leaks(joint: JointTests, policy: Policy) -> list[Judgement]:
    """Return the status of each leak, without clients whose pooled leak has the same status."""
    judged_leaks = _judged_leaks(joint, policy)
    pooled_keys = {
        (judgement.status, _apart_from_client(leak.row))
        for leak, judgement in judged_leaks
        if leak.row.scope.get("client") == EVERYBODY
    }
    return [
        judgement
        for leak, judgement in judged_leaks
        if leak.row.scope.get("client") == EVERYBODY
        or (judgement.status, _apart_from_client(leak.row)) not in pooled_keys
    ]


def _proven_status(
    leak: Leak, failed: Sequence[tuple[Test, float]], policy: Policy
) -> tuple[str, str]:
    """Return the status of a proven leak: whether it is within what the policy allows."""
    findings = ", and ".join(f"{test.finding} (p = {p:.2g})" for test, p in failed)
    summary = f"{leak.name}: {failed[0][0].subject}, {findings}"
    least = leak.lower_bound(policy.confidence)
    if not policy.extraction or least > policy.extraction:
        return "fail", f"{summary}."
    within = f"{summary}; the policy allows {policy.extraction:.2%}"
    most = leak.upper_bound(policy.confidence)
    if most <= policy.max_leak and leak.shared_hits:
        return "inconclusive", f"{leak.name}: {leak.shared_leak()}"
    if most <= policy.max_leak:
        return "pass", f"{within}, and it is surely no more than {most:.2%}."
    return "inconclusive", f"{within}, and it may be up to {most:.2%}."


def _unexplained_status(leak: Leak, test: Test, joint: JointTests) -> tuple[str, str]:
    """Return the status of a leak whose p value is low by itself and not among all tests."""
    return "inconclusive", (
        f"{leak.name}: {test.subject}, {test.finding} taken by itself (p = {test.p:.2g}), but not "
        f"among all {len(joint.tests):,} tests of this report ({joint.p_by_test[id(test)]:.2g})."
    )


def _requester(row: Measurement) -> dict[str, str]:
    """Return who asked for whose data, and under which key, as far as a row says it."""
    keys = ("attacker", "victim", "client", "key", "adapter")
    return {key: str(row.scope[key]) for key in keys if key in row.scope}


def _agree(one: dict[str, str], other: dict[str, str]) -> bool:
    return all(other.get(key, value) == value for key, value in one.items())


def _apart_from_client(row: Measurement) -> tuple[object, ...]:
    scope = ((key, str(value)) for key, value in row.scope.items() if key != "client")
    return (row.plugin, row.metric, *sorted(scope))
