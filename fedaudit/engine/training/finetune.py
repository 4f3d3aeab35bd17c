"""Tuning a copy of a model on short examples: a new LoRA adapter stacked on the one it has.

The copy is one PEFT adapter, [A_old; A_new] and [B_old, B_new], whose product is the sum of both.
Only the new part is trained, so the old one stays what it was to the last bit.
"""

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.progress import Progress, no_progress
from fedaudit.engine.device import few_threads
from fedaudit.engine.loading import loader
from fedaudit.engine.local import LocalEngine
from fedaudit.engine.lora import adapter as lora
from fedaudit.engine.lora.adapter import A, B
from fedaudit.engine.lora.linear import fused_lora
from fedaudit.engine.training.loss import BatchLoss

NAME = "tuning"

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class TrainingExample:
    """A prompt, and the continuation of it that is to be learnt, both as tokens."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FinetuneConfig:
    """How a copy is tuned; the learning rate is constant."""

    rank: int = 16
    alpha: float = 32
    learning_rate: float = 5e-5
    epochs: int = 1
    batch_size: int = 8
    clip: float = 1.0
    """The norm to which a step's gradient is cut."""
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StackedAdapter:
    """An adapter of two parts; rows from `old` on of every A, and columns of every B, are new."""

    tensors: Tensors
    config: LoraConfig
    old: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FinetunedAdapter:
    """A tuned copy: its tensors, the configuration to write beside them, and how it learnt."""

    tensors: Tensors
    config: Mapping[str, Any]
    losses: Sequence[float]
    """Of every batch before its step, in nats: the mean over its answers' tokens."""


def tune(
    engine: LocalEngine,
    adapter: Path | None,
    examples: Sequence[TrainingExample],
    tuning: FinetuneConfig,
    progress: Progress = no_progress,
) -> FinetunedAdapter:
    """Return a copy of the model, base and `adapter`, that has learnt the answers of `examples`.

    The engine's model is used for it and left as it was. On a CPU the result follows from the
    arguments alone; a small model runs in one thread there. Raises InputError for an adapter that
    is not plain LoRA or of another base, and UsageError where a loss becomes NaN or infinite.
    """
    with _trainable(engine, adapter, tuning) as (model, stack), few_threads(small=engine.small):
        with fused_lora(model, NAME):
            losses = _optimise(model, stack.old, examples, tuning, progress)
        tensors = loader.tensors_of(model, NAME)
    return FinetunedAdapter(tensors=tensors, config=_plain(stack.config), losses=losses)


def stack_on(
    old: lora.LoraAdapter | None, new: Mapping[str, torch.Tensor], tuning: FinetuneConfig
) -> StackedAdapter:
    """Return an adapter that does what `old` does and what `new` does, float32.

    `new` has PEFT's names and the scaling of `tuning`, which is the stack's as well: the old B
    takes up the ratio of the scalings, and an old rank below the largest is filled up with zeros.
    """
    scale = tuning.alpha / tuning.rank
    most = max((a.shape[0] for a, _ in old.pairs.values()), default=0) if old else 0
    tensors: Tensors = {}
    modules = [name.removesuffix(A) for name in new if name.endswith(A)]
    for module in modules:
        a, b = new[module + A].float(), new[module + B].float()
        if old and most:
            first, second = old.pairs[module.removeprefix(lora.ROOT)]
            room = most - first.shape[0]
            ratio = old.scales[module.removeprefix(lora.ROOT)] / scale
            a = torch.cat([torch.nn.functional.pad(first.float(), (0, 0, 0, room)), a])
            b = torch.cat([torch.nn.functional.pad(second.float() * ratio, (0, room)), b], dim=1)
        tensors |= {module + A: a, module + B: b}
    names = sorted(module.removeprefix(lora.ROOT) for module in modules)
    config = _config(names, most + tuning.rank, scale * (most + tuning.rank))
    return StackedAdapter(tensors=tensors, config=config, old=most)


def _config(modules: Sequence[str], rank: int, alpha: float) -> LoraConfig:
    options: dict[str, Any] = {"lora_alpha": int(alpha) if float(alpha).is_integer() else alpha}
    return LoraConfig(
        r=rank, lora_dropout=0.0, target_modules=list(modules), task_type="CAUSAL_LM", **options
    )


def _plain(config: LoraConfig) -> dict[str, Any]:
    """Return the configuration as JSON has it."""
    table = {**config.to_dict(), "inference_mode": True}
    return {key: sorted(v) if isinstance(v, set) else v for key, v in table.items()}


@contextlib.contextmanager
def _trainable(
    engine: LocalEngine, adapter: Path | None, tuning: FinetuneConfig
) -> Iterator[tuple[PeftModel, StackedAdapter]]:
    """Give the engine's model with the stack as its active adapter, and take it off again."""
    old = lora.read(adapter) if adapter else None
    shapes = _shapes(engine.base.model, old)
    stack = stack_on(old, _fresh(shapes, tuning), tuning)
    before = engine.model
    active = before.active_adapter if isinstance(before, PeftModel) else ""
    model = loader.with_adapter(before, stack.config, NAME, trainable=True)
    try:
        loader.fit(model, stack.tensors, NAME, str(adapter or engine.base.name))
        model.set_adapter(NAME)
        yield model, stack
    finally:
        if model is before:
            model.set_adapter(active)
            model.delete_adapter(NAME)
        else:
            model.unload()


def _shapes(base: PreTrainedModel, old: lora.LoraAdapter | None) -> dict[str, tuple[int, int]]:
    """Return (in, out) of every layer that gets a new part: those of `old`, or all linear ones.

    The output layer is none of them. Raises InputError where the base has no such layer.
    """
    if old is not None:
        for name in old.pairs:
            lora.layer_of(base, old, name)  # raises for a foreign one
        return {name: (a.shape[1], b.shape[0]) for name, (a, b) in old.pairs.items()}
    output = base.get_output_embeddings()
    shapes = {
        name.removesuffix(".base_layer"): _widths(layer)  # as PEFT calls what it has wrapped
        for name, layer in base.named_modules()
        if isinstance(layer, torch.nn.Linear | Conv1D)
        and layer is not output
        and ".lora_" not in name
    }
    if not shapes:
        raise InputError("The base has no linear layer that an adapter could be put on.")
    return shapes


def _widths(layer: torch.nn.Linear | Conv1D) -> tuple[int, int]:
    """Return (in, out) of a linear layer; GPT-2 keeps its weights as (in, out)."""
    first, second = layer.weight.shape
    return (first, second) if isinstance(layer, Conv1D) else (second, first)


def _fresh(shapes: Mapping[str, tuple[int, int]], tuning: FinetuneConfig) -> Tensors:
    """Return a new adapter that changes nothing yet: A uniform as PEFT draws it, B zero.

    Drawn module by module on the CPU, so that no device and no other module matters.
    """
    tensors: Tensors = {}
    for number, (name, (width, out)) in enumerate(sorted(shapes.items())):
        generator = torch.Generator().manual_seed(tuning.seed * 1_000_003 + number)
        noise = torch.rand(tuning.rank, width, generator=generator)
        tensors[lora.ROOT + name + A] = (2 * noise - 1) / math.sqrt(width)
        tensors[lora.ROOT + name + B] = torch.zeros(out, tuning.rank)
    return tensors


def _optimise(
    model: PeftModel,
    old: int,
    examples: Sequence[TrainingExample],
    tuning: FinetuneConfig,
    progress: Progress,
) -> list[float]:
    """Take the steps of every epoch and return the loss before each."""
    named = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
    weights = [weight for _, weight in named]
    # Without weight decay: a weight whose gradient is zero then stays as it is.
    optimiser = torch.optim.AdamW(weights, lr=tuning.learning_rate, weight_decay=0.0)
    losses: list[float] = []
    done, total = 0, tuning.epochs * len(examples)
    model.eval()  # nothing here drops out, and the answers are those of the model that is asked
    batch_loss = BatchLoss(model)
    for batch in training_batches([len(x.prompt) + len(x.answer) for x in examples], tuning):
        chosen = [examples[i] for i in batch]
        sequences = [(*lesson.prompt, *lesson.answer) for lesson in chosen]
        loss = batch_loss(sequences, [len(lesson.prompt) for lesson in chosen])
        torch.autograd.backward(loss)
        _only_new(named, old)
        torch.nn.utils.clip_grad_norm_(weights, tuning.clip)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        losses.append(_finite(loss))
        done += len(batch)
        progress(done, total)
    return losses


def _only_new(named: Sequence[tuple[str, torch.nn.Parameter]], old: int) -> None:
    """Set the gradient of each weight's old part to zero: the first `old` ranks stay."""
    for name, weight in named:
        if weight.grad is not None:
            (weight.grad if ".lora_A." in name else weight.grad.T)[:old] = 0


def _finite(loss: torch.Tensor) -> float:
    value = float(loss.detach())
    if not math.isfinite(value):
        raise UsageError("The copy's loss is no longer a number: lower the learning rate.")
    return value


def training_batches(lengths: Sequence[int], tuning: FinetuneConfig) -> Iterator[list[int]]:
    """Yield the examples' indices in batches: each once an epoch, of about one length together.

    Which of equal length meet, and when a batch comes, is drawn anew in each epoch.
    """
    generator = torch.Generator().manual_seed(tuning.seed)
    for _ in range(tuning.epochs):
        order = torch.randperm(len(lengths), generator=generator).tolist()
        order.sort(key=lambda index: lengths[index])
        cut = [order[i : i + tuning.batch_size] for i in range(0, len(order), tuning.batch_size)]
        for index in torch.randperm(len(cut), generator=generator).tolist():
            yield cut[index]
