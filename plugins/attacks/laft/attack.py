"""Latent association fine-tuning (FedPII, section 4.2.3): a private copy learns to say PII."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from fedaudit.api import AttackContext, InputError, UpTo
from fedaudit.extraction import query_plan
from fedaudit.extraction.prefix_attack import PrefixAttack
from fedaudit.extraction.prefixes import PiiOccurrence, pii_occurrences
from fedaudit.extraction.query_budget import limit_plan
from fedaudit.extraction.query_plan import QueryPlan

from ..prefix.subprefixes import attacker_subprefixes
from . import model_cache

if TYPE_CHECKING:
    from fedaudit.engine.training.finetune import TrainingExample


@dataclass(frozen=True, kw_only=True)
class Laft(PrefixAttack):
    """Tune a copy on frequent prefixes and the attacker's own PII, then ask the copy."""

    name: ClassVar[str] = "laft"
    paper: ClassVar[str] = "FedPII, arXiv:2506.06060, section 4.2.3 and appendix K.3.3"
    tunes: ClassVar[bool] = True

    context: int = 50
    """How many tokens before a PII make a prefix (lambda)."""
    pairs: int = 10_000
    """How many of the most frequent sub-prefixes are learnt, each with a PII drawn for it."""
    rank: Annotated[int, UpTo(4_096)] = 16
    """The rank of the new adapter, which is put on top of the model's own."""
    alpha: float = 32.0
    """The new adapter's LoRA alpha: its scale times its rank."""
    learning_rate: float = 5e-5
    """The constant learning rate of AdamW."""
    epochs: int = 1
    """How often each pair is learnt."""
    batch_size: int = 8
    """Pairs per step."""
    prefixes: Literal["contextual", "frequency"] = "contextual"
    """What the copy is asked: the attacker's contexts, or its most frequent sub-prefixes."""
    budget: int | None = None
    """How many prefixes are asked; contextual ones are drawn at random. If not set, all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        least = (self.context, self.pairs, self.rank, self.epochs, self.batch_size)
        if min(least) < 1:
            raise ValueError("context, pairs, rank, epochs and batch_size must be at least 1.")
        if not 0 < self.learning_rate <= 1 or not 0 < self.alpha <= 1e6:
            raise ValueError("learning_rate must be above 0 and at most 1, alpha above 0.")
        if self.budget is not None and self.budget < 1:
            raise ValueError("budget must be at least 1.")

    @property
    def ordered(self) -> bool:
        """Whether a budget takes the first queries of the plan; else it draws queries at random."""
        return self.prefixes == "frequency"

    def prepare(self, context: AttackContext) -> tuple[AttackContext, tuple[str, ...]]:
        """Return the context with the tuned copy in the model's place, and notes on it.

        Its documents keep the PII of the chosen kinds only.
        """
        examples = self.tuning_examples(context)
        from fedaudit.engine.training.finetune import FinetuneConfig

        tuning = FinetuneConfig(
            rank=self.rank,
            alpha=self.alpha,
            learning_rate=self.learning_rate,
            epochs=self.epochs,
            batch_size=self.batch_size,
            seed=context.seed,
        )
        copy = model_cache.tuned_copy(context, examples, tuning, context.progress)
        target = replace(context.tuned, name="tuned copy", adapter=str(copy.folder))
        return replace(context, tuned=target), (self._tuning_text(context, len(examples), copy),)

    def tuning_examples(self, context: AttackContext) -> list["TrainingExample"]:
        """Return D_ft: the most frequent sub-prefixes, each with a PII of the attacker's own.

        PII are drawn from all occurrences, and none comes again before every other has come.
        Raises InputError where the attacker has no PII with text before it.
        """
        from fedaudit.engine.training.finetune import TrainingExample

        pii_tokens = sorted(
            p.tokens
            for p in pii_occurrences(context.engine, context.attacker, self.context)
            if p.tokens
        )
        if not pii_tokens:
            raise InputError(
                f"{self.name} learns from the attacker's own PII, and the prefixes file has none "
                "with text before it."
            )
        prompts = [
            context.with_start(p.prefix, at_start=p.at_start)
            for p in attacker_subprefixes(context, self.context).most_frequent(self.pairs)
        ]
        answers = _draw_cyclic(pii_tokens, len(prompts), context.seed)
        most = context.engine.context_length
        return [
            TrainingExample(prompt, answer[: most - len(prompt)])
            for prompt, answer in zip(prompts, answers, strict=True)
            if len(prompt) < most
        ]

    def occurrences(self, context: AttackContext) -> Sequence[PiiOccurrence]:
        """Return P_c, or the distinct sub-prefixes P_f in order, whichever is asked."""
        if self.prefixes == "contextual":
            return pii_occurrences(context.engine, context.attacker, self.context)
        subprefixes = attacker_subprefixes(context, self.context)
        return subprefixes.first(len(subprefixes))

    def plan(self, context: AttackContext) -> QueryPlan:
        """Return what the copy is asked: some of P_c as a multiset, or the first of P_f."""
        full_plan = (query_plan.plan_in_order if self.ordered else query_plan.plan_by_frequency)(
            context, self.occurrences(context)
        )
        budget = self.budget or 0
        return limit_plan(
            full_plan, budget, seed=context.seed, ordered=self.ordered, name=self.name
        )

    def _tuning_text(self, context: AttackContext, pairs: int, copy: model_cache.Copy) -> str:
        fewer = f" ({self.pairs:,} were wanted)" if pairs < self.pairs else ""
        model = context.tuned.adapter or context.tuned.name
        return (
            f"{self.name}: the model asked was a copy of {model}, tuned on {pairs:,} pairs{fewer} "
            "of a frequent sub-prefix and a PII of the attacker's own; the loss on the PII went "
            f"from {copy.first:.3f} to {copy.last:.3f} nats a token. The copy is kept as "
            f"{copy.folder.name} (SHA-256 {copy.sha256[:16]})."
        )


def _draw_cyclic(pool: Sequence[tuple[int, ...]], count: int, seed: int) -> list[tuple[int, ...]]:
    """Return `count` of `pool`, shuffled; all of it again, in another order, when it is used up."""
    rng = random.Random(f"laft {seed}")
    result: list[tuple[int, ...]] = []
    while len(result) < count:
        result += rng.sample(pool, len(pool))
    return result[:count]
