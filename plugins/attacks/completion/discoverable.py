"""Discoverable memorization (FewFedPIT, section 4.3, after Nasr et al. 2023)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from fedaudit.api import (
    Attack,
    AttackContext,
    Cost,
    Counts,
    GenerationRequest,
    InputError,
    Result,
    Target,
)
from fedaudit.extraction.targets import (
    NOTHING_EXCLUSIVE,
    exclusive_documents,
    left_out_text,
)

from . import training_pairs
from .pairs import DocumentSplit, answer_greedily, draw_splits
from .training_pairs import AnsweredPairs, PairScores, TrainingPairs


@dataclass(frozen=True, kw_only=True)
class Discoverable(Attack):
    """Give the prompt of each training pair and measure how much of its answer comes back."""

    name: ClassVar[str] = "discoverable"
    paper: ClassVar[str] = "FewFedPIT, arXiv:2403.06131, section 4.3 and figure 3"
    compares: ClassVar[bool] = True
    needs = frozenset({"continue"})

    examples: int = 100
    """The most training pairs to ask, drawn at random; 0 takes all."""
    new_tokens: int = 128
    """The most tokens of an answer; it may always be as long as the true one."""
    threshold: float = 0.9
    """The Rouge-L from which an answer counts as leaked."""

    def __post_init__(self) -> None:
        if self.examples < 0 or self.new_tokens < 1:
            raise ValueError("examples must be at least 0, new_tokens at least 1.")
        if not 0 < self.threshold <= 1:
            raise ValueError("threshold must be above 0 and at most 1.")

    def cost(self, counts: Counts) -> Cost:
        """Return the cost of one answer for each training pair, and for as many held-out ones."""
        sets = [counts.tried, counts.held_out] if counts.has_victim else [counts.tried]
        answers = sum(min(self.examples or count, count) for count in sets)
        return Cost(answers, answers * self.new_tokens)

    def run(self, context: AttackContext) -> Result:
        """Ask for the answers in the victim's records, or in the attacker's own without one."""
        documents = exclusive_documents(context)
        if not documents:
            raise InputError(f"There is nothing to ask: {NOTHING_EXCLUSIVE}.")
        pairs = training_pairs.training_pairs(context, documents)
        if not pairs.splits:
            raise InputError(
                "There is nothing to ask: no record has an instruction and an output that ends "
                "its text and fits the model's context."
            )
        splits = draw_splits(pairs.splits, self.examples, context.seed)
        measured = self._score_pairs(context, splits, "own" if context.victim is None else "victim")
        beside = self._held_out(context)
        result = training_pairs.result(replace(measured, held_out=beside, related=context.related))
        limits = [self._coverage_text(context, pairs, splits)]
        if shared := len(context.attacked_documents) - len(documents):
            limits.append(left_out_text(self.name, shared))
        return replace(result, limits=(*limits, *result.limits))

    def _held_out(self, context: AttackContext) -> PairScores | None:
        """Ask for as many held-out answers."""
        splits = training_pairs.training_pairs(context, context.held_out or ()).splits
        selected = draw_splits(splits, self.examples, context.seed)
        return self._score_pairs(context, selected, "held-out") if selected else None

    def _score_pairs(
        self, context: AttackContext, splits: Sequence[DocumentSplit], records: str
    ) -> PairScores:
        requests = [self._probe(context, split) for split in splits]

        def ask(target: Target) -> AnsweredPairs:
            texts = answer_greedily(context, target, requests)
            return training_pairs.score_answers(splits, [texts[request] for request in requests])

        return PairScores(
            plugin=self.name,
            splits=splits,
            tuned=ask(context.tuned),
            base=ask(context.base) if context.base else None,
            questions=len(set(requests)),
            threshold=self.threshold,
            records=records,
            seed=context.seed,
        )

    def _probe(self, context: AttackContext, split: DocumentSplit) -> GenerationRequest:
        new = max(self.new_tokens, len(split.suffix))
        room = context.engine.context_length - len(split.prompt)
        return GenerationRequest(prompt=split.prompt, samples=1, max_new_tokens=min(new, room))

    def _coverage_text(
        self, context: AttackContext, pairs: TrainingPairs, splits: Sequence[DocumentSplit]
    ) -> str:
        owner = "the attacker's own" if context.victim is None else "the victim's"
        return (
            f"{self.name}: {len(splits):,} of {len(pairs.splits):,} distinct training pairs, "
            f"{owner}, were asked greedily; {pairs.no_answer:,} records were left out because "
            f"they do not end with an answer in words to an instruction, {pairs.too_long:,} "
            "because they do not fit in the model's context."
        )
