"""Adapters blended into one: c1 w1 + c2 w2 + ..., where w = s B A is an adapter's weight change.

The products are summed (SecureGate, arXiv:2602.13529, equations 2, 6 and 8), and stacking does it
exactly: with A = [A1; A2] and B = [c1 B1, c2 B2], B A = c1 B1 A1 + c2 B2 A2, which is an ordinary
adapter whose rank is the sum of the ranks. LoRAHub, whose search SecureGate adopts, sums A and B
separately in its code: (c1 B1 + c2 B2)(c1 A1 + c2 A2) squares the weights and adds the cross terms
c1 c2 (B1 A2 + B2 A1).

The scalings s may differ (alpha / r, or alpha / sqrt(r) with use_rslora, by module where patterns
set them): the blend has the first adapter's default scaling, and each B is rescaled to match.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel
from peft.tuners.lora import LoraLayer

from fedaudit.api.errors import InputError
from fedaudit.api.records import Target
from fedaudit.engine.loading import loader
from fedaudit.engine.local import LocalEngine
from fedaudit.engine.lora import adapter
from fedaudit.engine.lora.adapter import ROOT, SELECTION, A, B, LoraAdapter
from fedaudit.federation import adapters


@dataclass(frozen=True, slots=True)
class _Stack:
    """Stacked adapters, each with weight 1."""

    tensors: Mapping[str, torch.Tensor]
    ranks: Mapping[str, Sequence[int]]
    """For the name of each B, the number of columns of each adapter."""
    config: LoraConfig
    changes: Mapping[str, Any]
    """The settings in which `config` differs from the first adapter's configuration."""


class AdapterComposition:
    """Stacked adapters attached to a model as one; only their weights change between calls."""

    def __init__(self, engine: LocalEngine, model: PeftModel, name: str, stack: _Stack) -> None:
        self._model, self._name, self._stack = model, name, stack
        device = model.device
        self._whole = {key: stack.tensors[key].to(device) for key in stack.ranks}
        self._parameters = {
            stack_key: parameter
            for key, parameter in model.named_parameters()
            if (stack_key := key.replace(f".{name}.", ".")) in stack.ranks and f".{name}." in key
        }
        # PEFT puts its layers into the base's own modules. So an engine that knows of no adapter
        # sees the base with the active adapter.
        self._view = LocalEngine(engine.base, batch_size=engine.rows, tokens=engine.tokens)
        self._view.small = engine.small

    def scores(
        self, weights: Sequence[float], sequences: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """Return ln p of every token but the first of each sequence, like `LocalEngine.score`."""
        with torch.no_grad():
            for key, tensor in self._whole.items():
                columns = _columns(weights, self._stack.ranks[key])
                self._parameters[key].copy_(tensor * columns.to(tensor.device))
        self._model.set_adapter(self._name)
        self._model.eval()
        return self._view.score(Target(name="blend"), sequences)

    def loss(self, weights: Sequence[float], sequences: Sequence[Sequence[int]]) -> float:
        """Return the mean loss per token over all `sequences`, in nats.

        Every token has the same weight, in whatever sequence or batch it is (LoRAHub's code divides
        a sum over batches by the number of examples, so that its loss depends on the batch size).
        The loss is not finite if a score is not. Raises InputError if there is no token to predict.
        """
        return mean_loss(self.scores(weights, sequences))


def mean_loss(scores: Sequence[Sequence[float]]) -> float:
    """Return minus the mean of all scores; raises InputError if there are none."""
    count = sum(map(len, scores))
    if not count:
        raise InputError("There is no loss to measure: no text has two tokens.")
    return -math.fsum(score for row in scores for score in row) / count


def weighted_sum(
    folders: Sequence[Path], weights: Sequence[float]
) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Return tensors (float32) and configuration of the weighted sum of the adapters in `folders`.

    `weights` has one number per folder; there is at least one. Raises InputError for an adapter
    that is more than a sum of B A (DoRA, trained biases or embeddings), and for different shapes.
    """
    stack = _stack(folders)
    tensors = dict(stack.tensors)
    for name, ranks in stack.ranks.items():
        tensors[name] = tensors[name] * _columns(weights, ranks)
    return tensors, {**adapters.check(folders[0]), **stack.changes}


@contextmanager
def attached_composition(
    engine: LocalEngine, folders: Sequence[Path]
) -> Iterator[AdapterComposition]:
    """Attach adapters as one within the context, and restore the engine afterwards.

    Within the context, the engine can be used for any other target.
    """
    stack = _stack(folders)
    before = engine.model
    adapter_names = set(before.peft_config) if isinstance(before, PeftModel) else set()
    name = f"blend{len(adapter_names)}"
    with _restore_adapters(engine, name):
        model = loader.with_adapter(before, stack.config, name, trainable=False)
        engine.model = model
        loader.fit(model, stack.tensors, name, " with ".join(map(str, folders)))
        yield AdapterComposition(engine, model, name, stack)


@contextmanager
def _restore_adapters(engine: LocalEngine, name: str) -> Iterator[None]:
    """Detach the adapter `name` at the end; restore the active adapter, gradients and modes."""
    model = engine.base.model
    active = engine.model.active_adapter if isinstance(engine.model, PeftModel) else None
    gradients = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        _detach(engine, name, active)
        for parameter, requires_grad in gradients:
            parameter.requires_grad_(requires_grad)
        for module, mode in modes:
            module.training = mode


def _detach(engine: LocalEngine, name: str, active: str | None) -> None:
    """Delete the adapter `name`, and PEFT's layers on which it was the only one."""
    model = engine.model
    if not isinstance(model, PeftModel):
        return
    remaining = [n for n in model.peft_config if n != name]
    if not remaining:
        model.unload()
        engine.model = engine.base.model
        return
    model.set_adapter(active if active in remaining else remaining[0])
    if name in model.peft_config:
        model.delete_adapter(name)
    for path, layer in list(model.named_modules()):
        if isinstance(layer, LoraLayer) and not layer.r:  # no adapter is left on it
            parent, _, child = path.rpartition(".")
            setattr(model.get_submodule(parent), child, layer.get_base_layer())


def _columns(weights: Sequence[float], ranks: Sequence[int]) -> torch.Tensor:
    """Return the weight of each column (sum of ranks,): that of the adapter it belongs to."""
    if len(weights) != len(ranks) or not all(map(math.isfinite, weights)):
        raise ValueError(f"{len(ranks)} adapters are blended by as many finite weights.")
    return torch.tensor(weights, dtype=torch.float32).repeat_interleave(torch.tensor(ranks))


def _stack(folders: Sequence[Path]) -> _Stack:
    """Return the stacked adapters: A (sum of r, in) and B (out, sum of r) under one scaling."""
    if not folders:
        raise ValueError("There is no adapter to blend.")
    loras = [adapter.read(folder) for folder in folders]
    modules = sorted({module for lora in loras for module in lora.pairs})
    ranks = {module: [_rank(lora, module) for lora in loras] for module in modules}
    most, scale = max(map(sum, ranks.values())), adapter.scale_of(loras[0].config) or 1.0
    alpha, tensors = scale * most, {}
    for module in modules:
        _check_shapes(loras, module)
        module_scale = alpha / sum(ranks[module])
        pairs = [
            (*p.pairs[module], p.scales[module] / module_scale) for p in loras if module in p.pairs
        ]
        tensors[ROOT + module + A] = torch.cat([a.float() for a, _, _ in pairs])
        tensors[ROOT + module + B] = torch.cat([b.float() * f for _, b, f in pairs], dim=1)
    changes = {
        "r": most,
        "lora_alpha": int(alpha) if alpha == int(alpha) else alpha,
        "use_rslora": False,
        "rank_pattern": {f"^{m}": sum(ranks[m]) for m in modules if sum(ranks[m]) != most},
        "alpha_pattern": {},
        "inference_mode": True,
        **_selection(loras, modules),
    }
    named = {ROOT + module + B: ranks[module] for module in modules}
    return _Stack(tensors, named, replace(loras[0].config, **changes), changes)


def _selection(loras: Sequence[LoraAdapter], modules: Sequence[str]) -> dict[str, Any]:
    """Return the settings that select the blend's modules; none if all adapters agree on them."""
    first = loras[0]
    if all(
        lora.pairs.keys() == first.pairs.keys()
        and all(getattr(lora.config, key) == getattr(first.config, key) for key in SELECTION)
        for lora in loras
    ):
        return {}
    return dict.fromkeys(SELECTION) | {"target_modules": list(modules)}


def _check_shapes(loras: Sequence[LoraAdapter], module: str) -> None:
    """Raise InputError unless B A has the same shape in all adapters on a module."""
    products = [(p.folder, *p.pairs[module]) for p in loras if module in p.pairs]
    shapes = {f"{b.shape[0]} x {a.shape[1]}": folder for folder, a, b in products}
    if len(shapes) > 1:
        (first, first_folder), (second, second_folder) = list(shapes.items())[:2]
        raise InputError(
            f"{first_folder} and {second_folder} are adapters for different bases: {module} is "
            f"{first} in the one and {second} in the other."
        )


def _rank(lora: LoraAdapter, module: str) -> int:
    """Return an adapter's rank on a module, 0 if it does not adapt the module."""
    return lora.pairs[module][0].shape[0] if module in lora.pairs else 0
