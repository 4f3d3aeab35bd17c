"""Latent association fine-tuning (FedPII, section 4.2.3): a private copy learns to say PII."""

import json
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from fedaudit.api import AttackContext, InputError, Progress, UpTo, UsageError, unwrap_engine
from fedaudit.extraction import query_plan
from fedaudit.extraction.prefix_attack import PrefixAttack
from fedaudit.extraction.prefixes import PiiOccurrence, pii_occurrences
from fedaudit.extraction.query_budget import limit_plan
from fedaudit.extraction.query_plan import QueryPlan
from fedaudit.federation import adapters
from fedaudit.system.files import atomic_text, json_sha256, read_json, sha256

from ..prefix.subprefixes import attacker_subprefixes

if TYPE_CHECKING:
    from fedaudit.engine.local import LocalEngine
    from fedaudit.engine.training.finetune import FinetuneConfig, TrainingExample

DONE = "tuned.json"
"""Written last: a copy without it was not finished."""

FORM = 1
"""Counts up when the same examples and settings make another copy than before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A tuned copy: one adapter on the base, which stands for what it was tuned from as well."""

    folder: Path
    sha256: str
    """Of its weights."""
    first: float
    """Mean loss of the first tenth of the batches, in nats a token."""
    last: float
    """The same of the last tenth."""
    cached: bool
    """Whether it had been made before."""


def tuned_copy(
    context: AttackContext,
    examples: Sequence["TrainingExample"],
    tuning: "FinetuneConfig",
    progress: Callable[[str], Progress],
) -> Copy:
    """Return the copy of `context.tuned` tuned on `examples`, from the cache if it is there.

    Nothing is written but below the user's cache folder. Raises UsageError for a model that is
    not in this process, or that a defence answers for.
    """
    from fedaudit.engine.local import LocalEngine
    from fedaudit.engine.parallel.engine import ParallelEngine

    processes = unwrap_engine(context.engine, ParallelEngine)
    engine = processes.local if processes else unwrap_engine(context.engine, LocalEngine)
    if engine is None or context.tuned.heading is not None:
        raise UsageError(
            "A copy can only be tuned of a model whose weights are here: for a federation that "
            "answers through a defence, name the global adapter's --round."
        )
    adapter = Path(context.tuned.adapter) if context.tuned.adapter else None
    folder = _private(_private(_cache() / "tuned") / _name(engine, adapter, examples, tuning))
    done = _read(folder)
    if done is None:
        _make(folder, engine, adapter, examples, tuning, progress("tuning a copy"))
    details = done or _read(folder)
    assert details is not None
    return Copy(folder=folder, cached=done is not None, **details)


def _make(
    folder: Path,
    engine: "LocalEngine",
    adapter: Path | None,
    examples: Sequence["TrainingExample"],
    tuning: "FinetuneConfig",
    progress: Progress,
) -> None:
    """Tune the copy and write it to `folder`, the marker of completion last."""
    from fedaudit.engine.training.finetune import tune

    tuned = tune(engine, adapter, examples, tuning, progress)
    adapters.write(tuned.tensors, tuned.config, folder)
    tenth = max(1, len(tuned.losses) // 10)
    table = {
        "sha256": sha256(folder / adapters.WEIGHTS),
        "first": sum(tuned.losses[:tenth]) / tenth,
        "last": sum(tuned.losses[-tenth:]) / tenth,
    }
    atomic_text(folder / DONE, json.dumps(table, indent=2) + "\n", mode=0o600)


def _read(folder: Path) -> dict[str, Any] | None:
    """Return what is known of the copy in `folder`; None where it is not whole or was changed."""
    try:
        table = read_json(folder / DONE, "")
        details = {"sha256": str(table["sha256"])} | {n: float(table[n]) for n in ("first", "last")}
        adapters.check(folder)
        same = sha256(folder / adapters.WEIGHTS) == details["sha256"]
    except (OSError, ValueError, KeyError, TypeError, InputError):
        return None
    return details if same else None


def _name(
    engine: "LocalEngine",
    adapter: Path | None,
    examples: Sequence["TrainingExample"],
    tuning: "FinetuneConfig",
) -> str:
    """Return a copy's name: the hash of all that it follows from."""
    files = [adapter / adapters.WEIGHTS, adapter / adapters.CONFIG] if adapter else []
    model = engine.base.model
    table = {
        "form": FORM,
        "base": engine.base.sha256,
        "adapter": [sha256(path) for path in files],
        "tuning": asdict(tuning),
        "lessons": [(example.prompt, example.answer) for example in examples],
        "arithmetic": f"{model.dtype} {model.device.type}",
    }
    return json_sha256(table)[:32]


def _cache() -> Path:
    """Return the folder of what fedaudit keeps for this user."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(named) if named else Path.home() / ".cache") / "fedaudit"


def _private(folder: Path) -> Path:
    """Return `folder`, made where there is none, that no one but its owner can read."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
    except OSError as error:
        raise InputError(f"{folder} cannot be made a folder: {error.strerror}.") from None
    return folder


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
        copy = tuned_copy(context, examples, tuning, context.progress)
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
            for p in attacker_subprefixes(context, self.context).first(self.pairs)
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
        return attacker_subprefixes(context, self.context)

    def plan(self, context: AttackContext) -> QueryPlan:
        """Return what the copy is asked: some of P_c as a multiset, or the first of P_f."""
        full_plan = (query_plan.plan_in_order if self.ordered else query_plan.plan_by_frequency)(
            context, self.occurrences(context)
        )
        budget = self.budget or 0
        return limit_plan(
            full_plan, budget, seed=context.seed, ordered=self.ordered, name=self.name
        )

    def _tuning_text(self, context: AttackContext, pairs: int, copy: Copy) -> str:
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
