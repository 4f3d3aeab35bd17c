"""Gradients of losses: of many texts together, by a layer's weights, and of each by an adapter's.

A LoRA layer computes with W + s B A, so the gradient with respect to its base weight W is the one
with respect to the effective weight, whatever part of it is the adapter's. A change of the
adapter is a sum of products B A there, and stays one: no product is ever written out.

An adapter's A and B are linear layers, and the gradient of such a layer is, for each text, the sum
over its tokens of what the layer put out wanted changed times what it read. Both are at hand in one
backward pass of a whole batch (Goodfellow 2015, arXiv:1510.01799).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import sqrt
from pathlib import Path

import torch
from peft import PeftModel
from peft.tuners.lora import LoraLayer
from transformers import PreTrainedModel

from fedaudit.api.errors import InputError
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Target
from fedaudit.engine.batching import by_length
from fedaudit.engine.local import LOGITS, LocalEngine
from fedaudit.engine.lora import adapter as lora
from fedaudit.engine.lora import composition
from fedaudit.engine.lora.adapter import ROOT, A, B
from fedaudit.engine.training.loss import summed_loss

TOKENS = 2048
"""The most tokens whose activations are kept for one backward pass."""

MAX_NUMBERS = 2**30
"""The most numbers that the gradients of all texts together have, 4 GB of them."""

Change = Mapping[str, tuple[torch.Tensor, torch.Tensor]]
"""A change of effective weights by module: A (r, in) and B (out, r), with the scaling in B."""


def weight_gradients(
    engine: LocalEngine, target: Target, sequences: Sequence[Sequence[int]]
) -> dict[str, torch.Tensor]:
    """Return the gradient of the mean token loss, by the module's name in an adapter's tensors.

    Nats per unit of weight, float32 (out, in), on the model's device: for each linear layer that
    the target's adapter is on. Every token but the first of each sequence counts alike, and batches
    change nothing but rounding. Raises InputError for a target without an adapter, for layers that
    have no such gradient, and unless a sequence has two tokens and all of them fit the context.
    """
    rows = [sequence for sequence in sequences if len(sequence) > 1]
    if not rows:
        raise InputError("There is no loss to derive: no text has two tokens.")
    if (longest := max(map(len, rows))) > engine.context_length:
        raise InputError(
            f"A text of {longest} tokens is longer than the context of {engine.base.name}, "
            f"{engine.context_length} tokens."
        )
    # The engine's own way to a target: the adapter is active inside, and batches are the engine's.
    with engine.activate(target) as model, torch.enable_grad():
        layers, _ = _layers(engine)
        weights = [_weight(name, layer) for name, layer in layers.items()]
        with _trainable(weights):
            totals = _sum_gradients(engine, model, rows, weights)
    count = sum(len(row) - 1 for row in rows)
    return {
        ROOT + name: (total.T if getattr(layer, "fan_in_fan_out", False) else total) / count
        for (name, layer), total in zip(layers.items(), totals, strict=True)
    }


def weight_change(after: Path, before: Path) -> Change:
    """Return the effective weights under the adapter `after` less those under `before`.

    Exact: the adapters are stacked, the second with weight -1. Raises InputError for adapters that
    are not plain LoRA, or of different bases.
    """
    tensors, config = composition.weighted_sum([after, before], (1.0, -1.0))
    change = {}
    for module in sorted(name.removesuffix(A) for name in tensors if name.endswith(A)):
        a, b = tensors[module + A], tensors[module + B]
        change[module] = a, b * (config["lora_alpha"] / len(a))
    return change


def gradient_product(gradients: Mapping[str, torch.Tensor], changed: Change) -> float:
    """Return sum <G, B A> over the modules, in float64: what the loss changes by, to first order.

    Raises InputError for a change on a module that has no gradient.
    """
    if missing := sorted(changed.keys() - gradients.keys()):
        raise InputError(f"The change of {missing[0]} cannot be judged: it has no gradient.")
    total = 0.0
    for module, (a, b) in changed.items():
        gradient = gradients[module].double()
        total += float(((b.to(gradient).T @ gradient) * a.to(gradient)).sum())
    return total


def change_norm(changed: Change) -> float:
    """Return the Frobenius norm of the whole change, in float64: |B A|^2 = <B'B, A A'>."""
    doubled = [(a.double(), b.double()) for a, b in changed.values()]
    square = sum(float(((b.T @ b) * (a @ a.T)).sum()) for a, b in doubled)
    return sqrt(max(0.0, square))


def _layers(engine: LocalEngine) -> tuple[dict[str, LoraLayer], str]:
    """Return the layers that the active adapter is on, by their path in the base, and its name."""
    model = engine.model
    active = str(model.active_adapter) if isinstance(model, PeftModel) else ""
    layers = {
        path: layer
        for path, layer in engine.base.model.named_modules()
        if isinstance(layer, LoraLayer) and active in layer.lora_A and not layer.disable_adapters
    }
    if not layers:
        raise InputError("There is no adapter whose layers a loss could be derived by.")
    return layers, active


def _weight(name: str, layer: LoraLayer) -> torch.nn.Parameter:
    """Return a layer's base weight; raises InputError for one that is quantised or no matrix."""
    weight = layer.get_base_layer().weight
    if not isinstance(weight, torch.nn.Parameter) or not weight.is_floating_point():
        raise InputError(f"The weight of {name} is quantised and has no gradient.")
    if weight.ndim != 2:
        raise InputError(f"{name} is not a linear layer: its weight has {weight.ndim} dimensions.")
    return weight


@contextmanager
def _trainable(weights: Sequence[torch.Tensor]) -> Iterator[None]:
    before = [weight.requires_grad for weight in weights]
    try:
        for weight in weights:
            weight.requires_grad_(True)
        yield
    finally:
        for weight, flag in zip(weights, before, strict=True):
            weight.requires_grad_(flag)


def _sum_gradients(
    engine: LocalEngine,
    model: PreTrainedModel,
    rows: Sequence[Sequence[int]],
    weights: Sequence[torch.nn.Parameter],
) -> list[torch.Tensor]:
    """Return the gradients of the sum of all tokens' losses, added up in float32."""
    totals = [torch.zeros_like(weight, dtype=torch.float32) for weight in weights]
    vocabulary = int(model.config.get_text_config().vocab_size)
    room = max(1, min(TOKENS, engine.tokens, LOGITS // vocabulary))
    for batch in by_length([len(row) for row in rows], room):
        loss = summed_loss(model, [rows[index] for index in batch])
        for total, gradient in zip(totals, torch.autograd.grad(loss, weights), strict=True):
            total.add_(gradient)
    return totals


def unit_gradients(
    engine: LocalEngine,
    target: Target,
    sequences: Sequence[Sequence[int]],
    progress: Progress = no_progress,
) -> torch.Tensor:
    """Return the direction of each sequence's gradient, float32 (sequences, numbers) on the CPU.

    Of its mean token loss, with respect to all A and B of the target's adapter, in the order of
    `flattened`, divided by its length: what clipping leaves of it. Raises InputError for a target
    without an adapter, or of more numbers than memory should hold, and for a sequence of one token.
    """
    if min(map(len, sequences)) < 2:
        raise InputError("A text of one token has no loss that could be derived.")
    if max(map(len, sequences)) > engine.context_length:
        raise InputError(f"A text is longer than the context of {engine.base.name}.")
    with engine.activate(target) as model, torch.enable_grad():
        layers = _linear_layers(engine)
        count = sum(layer.weight.numel() for layer in layers.values())
        if len(sequences) * count > MAX_NUMBERS:
            raise InputError(
                f"The gradients of {len(sequences):,} texts by {count:,} weights are too many to "
                "hold: plant fewer canaries, or train adapters of a lower rank."
            )
        found = torch.zeros(len(sequences), count)
        vocabulary = int(model.config.get_text_config().vocab_size)
        done = 0
        with _observed(layers) as gradients:
            for batch in by_length(list(map(len, sequences)), min(TOKENS, LOGITS // vocabulary)):
                torch.autograd.backward(summed_loss(model, [sequences[i] for i in batch]))
                found[batch] = torch.cat([one.flatten(1) for one in gradients()], dim=1).cpu()
                done += len(batch)
                progress(done, len(sequences))
    length: torch.Tensor = found.norm(dim=1, keepdim=True)
    return found.div_(length.clamp(min=torch.finfo(torch.float32).tiny))


def flattened(folder: Path) -> torch.Tensor:
    """Return all numbers of an adapter, float32, A before B, module by module in their order."""
    pairs = lora.read(folder).pairs
    tensors = [tensor for module in sorted(pairs) for tensor in pairs[module]]
    return torch.cat([tensor.float().flatten() for tensor in tensors])


def _linear_layers(engine: LocalEngine) -> dict[tuple[str, int], torch.nn.Linear]:
    """Return A (0) and B (1) of every module that the active adapter is on, in order."""
    modules, active = _layers(engine)
    layers = {}
    for name, module in sorted(modules.items()):
        for number, part in enumerate((module.lora_A[active], module.lora_B[active])):
            if not isinstance(part, torch.nn.Linear):
                raise InputError(f"The adapter on {name} is not plain LoRA.")
            layers[name, number] = part
    return layers


class _Observed:
    """What each layer last read, and what was wanted of what it put out."""

    def __init__(self, layers: Mapping[tuple[str, int], torch.nn.Linear]) -> None:
        self._order = list(layers.values())
        self._inputs: dict[torch.nn.Module, torch.Tensor] = {}
        self._wanted: dict[torch.nn.Module, torch.Tensor] = {}

    def forward(
        self, layer: torch.nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor
    ) -> None:
        """Note what a layer reads, and, once it is known, the gradient of what it puts out."""
        self._inputs[layer] = inputs[0].detach()
        output.register_hook(partial(self._wanted.__setitem__, layer))

    def __call__(self) -> list[torch.Tensor]:
        """Return each layer's gradients, (rows, out, in) in float32."""
        return [
            torch.einsum("bti,bto->boi", self._inputs[layer].float(), self._wanted[layer].float())
            for layer in self._order
        ]


@contextmanager
def _observed(layers: Mapping[tuple[str, int], torch.nn.Linear]) -> Iterator[_Observed]:
    """Watch layers, whose weights count as trainable meanwhile."""
    seen = _Observed(layers)
    handles = [layer.register_forward_hook(seen.forward) for layer in layers.values()]
    try:
        with _trainable([layer.weight for layer in layers.values()]):
            yield seen
    finally:
        for handle in handles:
            handle.remove()
        for layer in layers.values():
            layer.weight.grad = None
