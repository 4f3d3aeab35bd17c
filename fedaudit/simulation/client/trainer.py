"""One client's LoRA training in one round."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from math import cos, pi
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.api.defense import Defense, TrainingSession
from fedaudit.api.errors import UsageError
from fedaudit.api.plugin import Aggregator
from fedaudit.api.records import Document
from fedaudit.api.templates import PromptTemplate
from fedaudit.simulation.config import Decay, Training
from fedaudit.simulation.data.loss_mask import prompt_length
from fedaudit.simulation.server.state import STATE, GradientCorrection

if TYPE_CHECKING:
    import torch
    from peft import PeftModel

    from fedaudit.engine.loading.loader import LoadedBase

ADAPTER = "client"


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUpTraining:
    """The training that a client's defence does after the shared adapter is trained."""

    defense: Defense
    documents: Sequence[Document]
    template: PromptTemplate
    folder: Path
    """The folder for the turn's own files."""
    adapters: Mapping[str, tuple[Path, int]]
    """The folder of each further adapter, by name, and the seed of its training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTraining:
    """A training to do, as it is sent to a worker process."""

    model_name: str
    """The name of the training: a client, alone or with one of its adapters, or "central"."""
    base: str
    start: Path
    out: Path
    merged: Path | None = None
    """An adapter that is merged into the base before the trained adapter is added."""
    sequences: Sequence[Sequence[int]]
    training: Training
    round: int
    rounds: int
    seed: int
    aggregator: Aggregator
    state_files: tuple[Path, Path] | None = None
    """The files of the server's and the client's state; None if the aggregation rule has none."""
    defenses: Sequence[Defense] = ()
    """The defences whose training stage applies: none for an adapter that no one else sees."""
    follow_up: FollowUpTraining | None = None
    device: str
    dtype: str
    threads: int


def train(job: ClientTraining) -> float:
    """Train the adapter in `job.start` on the job's sequences, write it, return the mean loss.

    The result follows from the job alone: batches and dropout are seeded, and on CPU the number
    of threads is set, because the order of float sums depends on it.
    """
    import torch

    from fedaudit.engine.loading.loader import fit, tensors_of
    from fedaudit.engine.lora.adapter import merged_weights
    from fedaudit.engine.lora.linear import fused_lora
    from fedaudit.federation import adapters

    threads = torch.get_num_threads()
    torch.set_num_threads(job.threads)
    config = adapters.check(job.start)
    lora = json.dumps(config, sort_keys=True)
    model = cached_model(job.base, job.device, job.dtype, lora, job.training.checkpointing)
    # After loading: creating a model draws random numbers, reusing the last job's does not.
    torch.manual_seed(job.seed)
    start = adapters.read(job.start)
    fit(model, start, ADAPTER, str(job.start))
    model.train()
    start = {name: tensor.to(model.device) for name, tensor in start.items()}
    weights = {
        name.replace(f".{ADAPTER}.", "."): parameter
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }
    gradients = None
    if job.state_files:
        server, client_state = (adapters.read_state(path) for path in job.state_files)
        gradients = GradientCorrection(job.aggregator, weights, server, client_state)
    with merged_weights(model, job.merged) if job.merged else nullcontext():
        loss = _train_by_defense(model, weights, job)
        if loss is None:
            with fused_lora(model, ADAPTER):
                loss = _optimize(model, weights, start, job, gradients)
    tensors = tensors_of(model, ADAPTER)
    _check_not_diverged(job, loss, tensors)
    adapters.write(tensors, config, job.out)
    if gradients:
        adapters.write_state(gradients.final_state(), job.out / STATE)
    torch.set_num_threads(threads)
    return loss


def _check_not_diverged(
    job: ClientTraining, loss: float, tensors: Mapping[str, "torch.Tensor"]
) -> None:
    """Raise UsageError if training left NaN weights or weights that no audit can read."""
    from fedaudit.federation import adapters

    if not all(bool((tensor.abs() <= adapters.LARGEST).all()) for tensor in tensors.values()):
        raise UsageError(
            f"The training of {job.model_name} diverged in round {job.round} (mean loss "
            f"{loss:.3g}): lower training.learning_rate."
        )


def plain_base(base: str, device: str, dtype: str) -> "LoadedBase":
    """Return the base without any adapter, kept so that trainings in this process share it.

    A model that was kept for the next job is taken apart.
    """
    forget_model()
    return _kept_base(base, device, dtype)


def forget_base() -> None:
    """Release the base, and the model that was kept for the next job."""
    forget_model()
    _kept_base.cache_clear()


def forget_model() -> None:
    """Take apart the model that was kept for the next job; its base is kept."""
    cached_model.cache_clear()
    _take_apart()


_in_use: list[tuple["PeftModel", bool]] = []
"""The model that `cached_model` made of the kept base, if any, and whether it checkpoints."""


def _take_apart() -> None:
    """Leave the kept base as it was loaded, without the adapter and what checkpointing added."""
    while _in_use:
        model, checkpointing = _in_use.pop()
        base = model.unload()
        if checkpointing:
            base.disable_input_require_grads()
            disable = getattr(base, "activation_checkpointing_disable", None)
            (disable or base.gradient_checkpointing_disable)()
        base.eval()


@lru_cache(maxsize=1)
def _kept_base(base: str, device: str, dtype: str) -> "LoadedBase":
    from fedaudit.engine.loading.loader import load_base

    return load_base(base, device=device, dtype=dtype)


@lru_cache(maxsize=1)
def cached_model(base: str, device: str, dtype: str, lora: str, checkpointing: bool) -> "PeftModel":
    """Return the base with a trainable adapter of this configuration, kept for the next job."""
    from peft import PeftConfig

    from fedaudit.engine.loading.loader import with_adapter

    config = PeftConfig.from_peft_type(**{**json.loads(lora), "inference_mode": False})
    loaded = _kept_base(base, device, dtype)
    _take_apart()
    model = with_adapter(loaded.model, config, ADAPTER, trainable=True)
    _in_use.append((model, checkpointing))
    if checkpointing:
        # Older versions of transformers have only the second name; newer ones warn about it.
        enable = getattr(loaded.model, "activation_checkpointing_enable", None)
        (enable or loaded.model.gradient_checkpointing_enable)({"use_reentrant": False})
        # The base is frozen, and checkpointing needs a gradient at its input to recompute anything.
        # Newer versions have seen to that, and a second hook would stay when the first is removed.
        if not getattr(loaded.model, "_require_grads_hooks", None):
            model.enable_input_require_grads()
    return model


def _train_by_defense(
    model: "PeftModel", weights: Mapping[str, "torch.nn.Parameter"], job: ClientTraining
) -> float | None:
    """Let the first defence that replaces the ordinary training steps train the model."""
    settings = job.training
    steps = steps_of(settings, len(job.sequences))
    before, total = schedule_span(settings, steps, job.round, job.rounds)
    session = TrainingSession(
        model=model,
        weights=weights,
        sequences=job.sequences,
        batch_size=settings.batch_size * settings.accumulation,
        steps=steps,
        rounds=job.rounds,
        rate=lambda step: rate_at(settings, step, steps, before, total),
        weight_decay=settings.weight_decay,
        clip=settings.clip,
        seed=job.seed,
    )
    losses = (defense.train(session) for defense in job.defenses)
    return next((loss for loss in losses if loss is not None), None)


def _optimize(
    model: "PeftModel",
    weights: Mapping[str, "torch.nn.Parameter"],
    start: Mapping[str, "torch.Tensor"],
    job: ClientTraining,
    gradients: GradientCorrection | None,
) -> float:
    import torch

    from fedaudit.engine.training.loss import BatchLoss

    settings = job.training
    kind = torch.optim.SGD if settings.optimizer == "sgd" else torch.optim.AdamW
    optimizer = kind(
        weights.values(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
    )
    steps = steps_of(settings, len(job.sequences))
    before, over = schedule_span(settings, steps, job.round, job.rounds)
    batches = draw_batches(job.sequences, settings.batch_size, job.seed)
    batch_loss = BatchLoss(model)
    losses = []
    for step in range(steps):
        rate = rate_at(settings, step, steps, before, over)
        for group in optimizer.param_groups:
            group["lr"] = rate
        for _ in range(settings.accumulation):
            batch = next(batches)
            loss = batch_loss(batch, [prompt_length(sequence) for sequence in batch])
            losses.append(loss.detach())
            extra = job.aggregator.penalty(start, weights)
            total = loss if extra is None else loss + extra
            torch.autograd.backward(total / settings.accumulation)
        torch.nn.utils.clip_grad_norm_(weights.values(), settings.clip)
        if gradients:
            gradients.correct()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return float(torch.stack(losses).mean()) if losses else float("nan")


def steps_of(settings: Training, documents: int) -> int:
    """Return the optimizer steps of a round: the configured number, or enough for the epochs."""
    per_step = settings.batch_size * settings.accumulation
    return settings.steps or settings.epochs * -(-documents // per_step)


def schedule_span(settings: Training, steps: int, number: int, rounds: int) -> tuple[int, int]:
    """Return the steps before a round, and the total, of the learning rate's decay schedule."""
    return (0, steps) if settings.restart else ((number - 1) * steps, rounds * steps)


def rate_at(settings: Training, step: int, steps: int, before: int, total: int) -> float:
    """Return the learning rate of a step: warmed up in each round, decayed over the `total` steps.

    `before` of these steps were in earlier rounds; see `schedule_span`.
    """
    warm = min(1.0, (step + 1) / settings.warmup) if settings.warmup else 1.0
    # An optimizer that starts anew in each round must warm up anew; steps guard short rounds.
    done = (before + min(step, steps)) / total
    return settings.learning_rate * warm * _decay_factor(settings.decay, done)


def _decay_factor(decay: Decay, done: float) -> float:
    if decay == "cosine":
        return 0.5 * (1 + cos(pi * done))
    return 1.0 - done if decay == "linear" else 1.0


def draw_batches(
    sequences: Sequence[Sequence[int]], size: int, seed: int
) -> Iterator[list[Sequence[int]]]:
    """Yield batches without end: every sequence once per epoch, in a new order each time.

    Sequences of similar length share a batch, which avoids most of the padding. The composition
    and order of batches are drawn anew in each epoch.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    waiting: list[int] = []
    while True:
        order = torch.randperm(len(sequences), generator=generator).tolist()
        while len(waiting) + len(order) < size:
            order += torch.randperm(len(sequences), generator=generator).tolist()
        pool = waiting + order
        cut = len(pool) // size * size
        chosen, waiting = sorted(pool[:cut], key=lambda i: len(sequences[i])), pool[cut:]
        batches = [chosen[start : start + size] for start in range(0, cut, size)]
        for index in torch.randperm(len(batches), generator=generator).tolist():
            yield [sequences[i] for i in batches[index]]


def pad_batch(
    batch: Sequence[Sequence[int]], device: "torch.device | str"
) -> dict[str, "torch.Tensor"]:
    """Return model inputs (batch, longest), padded on the right; attention and loss ignore padding.

    The loss also ignores prompt tokens, which are only read.
    """
    from fedaudit.engine.training import loss

    return loss.pad_batch(batch, [prompt_length(sequence) for sequence in batch], device)
