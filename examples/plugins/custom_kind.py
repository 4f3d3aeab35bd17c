"""A kind of measurement: how the verdict judges it, and what reports say of it."""

from collections.abc import Sequence
from math import comb
from typing import ClassVar

from fedaudit.api import Judgement, Kind, Measurement, Policy, Question, Test


class Order(Kind):
    """How many pairs of records are likelier in their file's order: half, if it was not seen."""

    name = "order"
    title = "Order of records"
    attack_class = "membership_inference"
    rules = ("order",)
    discloses = False
    compared = frozenset({"order_rate"})
    answers: ClassVar = {
        "fail": "This model knows in which order records stand in their file: it was tuned on it.",
        "pass": "This model does not show that it knows the order of the records in their file.",
        "inconclusive": "Whether this model knows the order of the records is not settled.",
    }
    question = Question(
        "Does the model know the order of the records?",
        "Oren et al. 2023",
        "Records are as likely in another order as in that of their file.",
    )

    def tests(
        self, rows: Sequence[Measurement], policy: Policy
    ) -> list[tuple[Measurement, Test | None]]:
        """Return the share of the tuned model with its binomial test against one half."""
        return [(row, _test(row)) for row in rows if row.scope.get("source") == "tuned"]

    def judge_test(
        self, row: Measurement, test: Test | None, adjusted: float | None, policy: Policy
    ) -> Judgement:
        """Return fail for a low p value, and pass if the order of few pairs at most is known."""
        limit = f"half of the pairs, at p = {policy.level:g}"
        if test is None or adjusted is None or row.high is None:
            reason = f"{row.plugin}: not measured: {row.reason or 'nothing was counted'}."
            return Judgement("inconclusive", reason, "order", row, limit)
        text = f"{row.plugin}: {test.subject}"
        if adjusted <= policy.level:
            reason = f"{text}, {test.finding} (p = {adjusted:.2g})."
            return Judgement("fail", reason, "order", row, limit)
        if row.high > 0.5 + policy.detectable:
            return Judgement("inconclusive", f"{text}: too few pairs to tell.", "order", row, limit)
        return Judgement("pass", f"{text}, no more than chance may give.", "order", row, limit)


def _test(row: Measurement) -> Test | None:
    if row.hits is None or not row.n:
        return None
    p = sum(comb(row.n, k) for k in range(row.hits, row.n + 1)) / 2**row.n
    subject = f"{row.hits:,} of {row.n:,} pairs of records are likelier in the order of their file"
    return Test(f"{row.plugin} (order)", p, subject, "more than chance explains")
