"""An attack and an aggregation rule for fedaudit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from fedaudit.api import (
    Aggregator,
    Attack,
    AttackContext,
    Finding,
    Measurement,
    Result,
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
    return [Opening]


@hookimpl
def fedaudit_aggregators() -> list[type[Aggregator]]:
    """Return our aggregation rules."""
    return [Median]
