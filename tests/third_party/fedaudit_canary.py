"""Two attacks, a kind of measurement and an aggregation rule for fedaudit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import ClassVar

from fedaudit.api import (
    Aggregator,
    Attack,
    AttackContext,
    Finding,
    Judgement,
    Kind,
    Measurement,
    Policy,
    Question,
    Result,
    Test,
    Update,
    hookimpl,
)
from fedaudit.extraction.prefix_attack import PrefixAttack
from fedaudit.extraction.prefixes import PiiOccurrence


@dataclass(frozen=True, kw_only=True)
class Opening(PrefixAttack):
    """Continue the first tokens of the attacker's own documents."""

    name: ClassVar[str] = "opening"
    paper: ClassVar[str] = "Carlini et al. 2021, arXiv:2012.07805, section 5.1"

    tokens: int = 20
    """How many tokens of a document are an opening."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokens < 1:
            raise ValueError("tokens must be at least 1.")

    def occurrences(self, context: AttackContext) -> Sequence[PiiOccurrence]:
        """Return the opening of every document; ready-made prompts stay whole."""
        tokenized = context.engine.tokenize([document.text for document in context.attacker])
        return [
            PiiOccurrence(
                prefix=tokens.ids if document.is_prompt else tokens.ids[: self.tokens],
                tokens=(),
                at_start=True,
            )
            for document, tokens in zip(context.attacker, tokenized, strict=True)
            if tokens.ids
        ]

    def run(self, context: AttackContext) -> Result:
        """Attack as these attacks do, and tell where the victim's documents hold what came out."""
        result = super().run(context)
        findings = tuple(self._locate(finding, context) for finding in result.findings)
        early = sum(finding.evidence.get("where") == "opening" for finding in findings)
        row = Measurement(
            kind="position",
            plugin=self.name,
            metric="found_in_openings",
            value=float(early),
            hits=early,
            n=len(findings),
            scope={"source": "tuned"},
        )
        return replace(result, findings=findings, measurements=(*result.measurements, row))

    def _locate(self, finding: Finding, context: AttackContext) -> Finding:
        """Return a finding with the first of the victim's documents that holds it, if any does."""
        text = str(finding.evidence["text"])
        document = next((d for d in context.victim or () if text in d.text), None)
        if document is None:
            return finding
        before = document.text[: document.text.index(text)].rstrip()
        count = len(context.engine.tokenize([before])[0].ids)
        location = {
            "where": "opening" if count < self.tokens else "rest",
            "tokens_before": count,
            "document": document.id,
        }
        return replace(
            finding, evidence={**finding.evidence, **location}, safe=(*finding.safe, "where")
        )


class Order(Kind):
    """How many pairs of records are likelier in the order of their file than the other way round.

    A model that has not seen the file finds each order likelier as often as the other.
    """

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
            return Judgement(
                "fail", f"{text}, {test.finding} (p = {adjusted:.2g}).", "order", row, limit
            )
        if row.high > 0.5 + policy.detectable:
            return Judgement("inconclusive", f"{text}: too few pairs to tell.", "order", row, limit)
        return Judgement("pass", f"{text}, no more than chance may give.", "order", row, limit)


def _test(row: Measurement) -> Test | None:
    if row.hits is None or not row.n:
        return None
    p = sum(comb(row.n, k) for k in range(row.hits, row.n + 1)) / 2**row.n
    subject = f"{row.hits:,} of {row.n:,} pairs of records are likelier in the order of their file"
    return Test(f"{row.plugin} (order)", p, subject, "more than chance explains")


@dataclass(frozen=True, kw_only=True)
class Pairs(Attack):
    """Ask whether records are likelier in the order of their file than the other way round."""

    name: ClassVar[str] = "pairs"
    paper: ClassVar[str] = "Oren et al. 2023, arXiv:2310.17623"
    kinds: ClassVar[tuple[type[Kind], ...]] = (Order,)

    between: str = "\n"
    """What stands between two records."""

    def run(self, context: AttackContext) -> Result:
        """Compare both orders of every two neighbours, under the tuned model and its base."""
        texts = [document.text for document in context.attacked_documents]
        pairs = list(zip(texts[::2], texts[1::2], strict=False))
        orders = [self.between.join(order) for pair in pairs for order in (pair, pair[::-1])]
        tokens = [tokens.ids for tokens in context.engine.tokenize(orders)]
        targets = {"tuned": context.tuned, "base": context.base}
        rows = []
        for source, target in targets.items():
            if target is not None:
                sums = [sum(scores) for scores in context.engine.score(target, tokens)]
                row = Measurement.rate(
                    sum(own > other for own, other in zip(sums[::2], sums[1::2], strict=True)),
                    len(pairs),
                    kind="order",
                    plugin=self.name,
                    metric="order_rate",
                    scope={"source": source},
                    chance=0.5,
                    reason="there are fewer than two records",
                )
                rows.append(row)
        return Result(measurements=tuple(rows))


@dataclass(frozen=True, kw_only=True)
class Median(Aggregator):
    """Take the median of the clients' adapters in every coordinate; weights do not count."""

    name: ClassVar[str] = "median"
    paper: ClassVar[str] = "Yin et al. 2018, arXiv:1803.01498, algorithm 1"

    def aggregate(
        self, start: Update, updates: Sequence[Update], weights: Sequence[float]
    ) -> Update:
        """Return each coordinate's middle value; of an even number, the mean of the middle two."""
        import torch

        lower, upper = (len(updates) - 1) // 2, len(updates) // 2
        result = {}
        for name, tensor in start.items():
            ordered = torch.stack([u[name].double() for u in updates]).sort(dim=0).values
            result[name] = ((ordered[lower] + ordered[upper]) / 2).to(tensor.dtype)
        return result


@hookimpl
def fedaudit_attacks() -> list[type[Attack]]:
    """Return our attacks."""
    return [Opening, Pairs]


@hookimpl
def fedaudit_aggregators() -> list[type[Aggregator]]:
    """Return our aggregation rules."""
    return [Median]
