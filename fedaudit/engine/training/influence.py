"""How the loss of texts changes with the weights that an adapter changes, to first order.

A LoRA layer computes with W + s B A, so the gradient with respect to its base weight W is the one
with respect to the effective weight, whatever part of it is the adapter's. A change of the
adapter is a sum of products B A there, and stays one: no product is ever written out.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import sqrt
from pathlib import Path

import torch
from peft import PeftModel
from peft.tuners.lora import LoraLayer
from transformers import PreTrainedModel

from fedaudit.api.errors import InputError
from fedaudit.api.records import Target
from fedaudit.engine.batching import by_length
from fedaudit.engine.local import LOGITS, LocalEngine
from fedaudit.engine.lora import composition
from fedaudit.engine.training.loss import summed_loss

_ROOT, _A, _B = "base_model.model.", ".lora_A.weight", ".lora_B.weight"

TOKENS = 2048
"""The most tokens whose activations are kept for one backward pass."""

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
        layers = _layers(engine)
        with _trainable([_weight(name, layer) for name, layer in layers.items()]) as weights:
            totals = _sum_gradients(engine, model, rows, weights)
    count = sum(len(row) - 1 for row in rows)
    return {
        _ROOT + name: (total.T if getattr(layer, "fan_in_fan_out", False) else total) / count
        for (name, layer), total in zip(layers.items(), totals, strict=True)
    }


def weight_change(after: Path, before: Path) -> Change:
    """Return the effective weights under the adapter `after` less those under `before`.

    Exact: the adapters are stacked, the second with weight -1. Raises InputError for adapters that
    are not plain LoRA, or of different bases.
    """
    tensors, config = composition.weighted_sum([after, before], (1.0, -1.0))
    change = {}
    for module in sorted(name.removesuffix(_A) for name in tensors if name.endswith(_A)):
        a, b = tensors[module + _A], tensors[module + _B]
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


def _layers(engine: LocalEngine) -> dict[str, LoraLayer]:
    """Return the layers that the active adapter is on, by their path in the base."""
    model = engine.model
    active = str(model.active_adapter) if isinstance(model, PeftModel) else ""
    layers = {
        path: layer
        for path, layer in engine.base.model.named_modules()
        if isinstance(layer, LoraLayer) and active in layer.lora_A and not layer.disable_adapters
    }
    if not layers:
        raise InputError("There is no adapter whose layers a loss could be derived by.")
    return layers


def _weight(name: str, layer: LoraLayer) -> torch.nn.Parameter:
    """Return a layer's base weight; raises InputError for one that is quantised or no matrix."""
    weight = layer.get_base_layer().weight
    if not isinstance(weight, torch.nn.Parameter) or not weight.is_floating_point():
        raise InputError(f"The weight of {name} is quantised and has no gradient.")
    if weight.ndim != 2:
        raise InputError(f"{name} is not a linear layer: its weight has {weight.ndim} dimensions.")
    return weight


@contextmanager
def _trainable(weights: list[torch.nn.Parameter]) -> Iterator[list[torch.nn.Parameter]]:
    before = [weight.requires_grad for weight in weights]
    try:
        for weight in weights:
            weight.requires_grad_(True)
        yield weights
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
