"""A LoRA adapter as tensors: for each module A (r, in), B (out, r) and the scaling of B A."""

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel
from peft.tuners.lora import LoraLayer
from peft.utils.other import get_pattern_key
from transformers.pytorch_utils import Conv1D

from fedaudit.api.errors import InputError
from fedaudit.engine.loading import adapter_layout, loader, module_patterns, ranks
from fedaudit.federation import adapters
from fedaudit.system.numbers import is_finite_number

ROOT, A, B = "base_model.model.", ".lora_A.weight", ".lora_B.weight"
SELECTION = ("target_modules", "exclude_modules", "layers_to_transform", "layers_pattern")
_PLAIN_STARTS = (True, False, None, "gaussian", "orthogonal")
"""Initializations that leave the base's weights unchanged; others, such as PiSSA, change them."""
_ACCOUNTED = frozenset(
    {
        *("task_type", "peft_type", "auto_mapping", "peft_version", "inference_mode", "revision"),
        *("base_model_name_or_path", "runtime_config", "megatron_core", "qalora_group_size"),
        *("r", "lora_alpha", "use_rslora", "rank_pattern", "alpha_pattern", *SELECTION),
        *("lora_dropout", "init_lora_weights", "fan_in_fan_out"),
    }
)
"""Options that stacking folds in or checks, or that do not change an adapter's output."""


@dataclass(frozen=True, slots=True)
class LoraAdapter:
    """One adapter: by module of the base, the pair (A, B) and its scaling."""

    folder: Path
    config: LoraConfig
    pairs: Mapping[str, tuple[torch.Tensor, torch.Tensor]]
    scales: Mapping[str, float]


def read(folder: Path) -> LoraAdapter:
    """Return the adapter in `folder`; raises InputError for one that is not plain LoRA."""
    said = adapters.check(folder)
    tensors, config = adapters.read_weights(folder), loader.configuration(folder, said)
    _check_options(config, folder)
    names = [name.removesuffix(A) for name in tensors if name.endswith(A)]
    pairs = {n.removeprefix(ROOT): (tensors.get(n + A), tensors.get(n + B)) for n in names}
    foreign = tensors.keys() - {name + end for name in names for end in (A, B)}
    if foreign:
        raise InputError(f"{folder} cannot be combined: {min(foreign)} is not of plain LoRA.")
    module_patterns.check(config, pairs)
    adapter_layout.check_patterns(config, said, tensors, folder)
    checked_pairs = {}
    for module, (a, b) in pairs.items():
        rank = ranks.configured_rank(config, module)
        if a is None or b is None or a.ndim != 2 or b.ndim != 2 or a.shape[0] != b.shape[1]:
            raise InputError(f"{folder} cannot be combined: A and B of {module} make no product.")
        if a.shape[0] != rank:
            raise InputError(
                f"{folder} cannot be combined: the rank of {module} is {a.shape[0]}, not {rank} as "
                f"{adapters.CONFIG} says."
            )
        checked_pairs[module] = (a, b)
    return LoraAdapter(
        folder,
        config,
        checked_pairs,
        {module: scale_of(config, module) for module in checked_pairs},
    )


@contextmanager
def merged_weights(model: torch.nn.Module, folder: Path) -> Iterator[None]:
    """Merge the adapter in `folder` into the base's weights within the context.

    Each adapted layer gets a new weight, so that merging into an output layer does not change the
    embedding that it is tied to. Raises InputError for an adapter that is not of this base.
    """
    with swapped_weights(weights_with(model, read(folder))):
        yield


Weights = list[tuple[torch.nn.Module, torch.nn.Parameter]]
"""Layers, each with a weight."""


def weights_with(model: torch.nn.Module, adapter: LoraAdapter) -> Weights:
    """Return the adapted layers of the base, each with its merged weight W + s B A.

    Sums are computed in float64. Raises InputError for an adapter that is not of this base.
    """
    loader.check_copies(model, adapter.folder)
    weights = Weights()
    base = model.get_base_model() if isinstance(model, PeftModel) else model
    for name, (a, b) in adapter.pairs.items():
        layer = layer_of(base, adapter, name)
        weight = layer.get_parameter("weight")
        change = adapter.scales[name] * (b.double() @ a.double()).to(weight.device)
        added = weight.data.double() + (change.T if isinstance(layer, Conv1D) else change)
        weights.append((layer, torch.nn.Parameter(added.to(weight.dtype), requires_grad=False)))
    return weights


@contextmanager
def swapped_weights(weights: Weights) -> Iterator[None]:
    """Replace the weights of layers within the context."""
    before = [(layer, layer.get_parameter("weight")) for layer, _ in weights]
    try:
        for layer, weight in weights:
            layer.weight = weight
        yield
    finally:
        for layer, weight in before:
            layer.weight = weight


def layer_of(base: torch.nn.Module, adapter: LoraAdapter, name: str) -> torch.nn.Module:
    """Return the base's layer `name`, unwrapped from PEFT's LoRA layer if there is one.

    Raises InputError if the base has no such layer, or if its shape is not that of B A.
    """
    try:
        module: torch.nn.Module | None = base.get_submodule(name)
    except AttributeError:
        module = None
    layer = module.get_base_layer() if isinstance(module, LoraLayer) else module
    weight = getattr(layer, "weight", None)
    if layer is None or not isinstance(weight, torch.Tensor) or weight.ndim != 2:
        raise InputError(
            f"{adapter.folder} is an adapter for another base: there is no layer {name}."
        )
    # GPT-2 keeps its weights as (in, out).
    out, width = reversed(weight.shape) if isinstance(layer, Conv1D) else weight.shape
    a, b = adapter.pairs[name]
    if (b.shape[0], a.shape[1]) != (out, width):
        raise InputError(
            f"{adapter.folder} is an adapter for another base: {name} is {b.shape[0]} x "
            f"{a.shape[1]} in the adapter and {out} x {width} in the base."
        )
    return layer


def _check_options(config: LoraConfig, folder: Path) -> None:
    """Raise InputError for an option by which an adapter does more than add s B A."""
    plain = LoraConfig()
    names = [field.name for field in fields(LoraConfig) if field.name not in _ACCOUNTED]
    odd = [n for n in names if (getattr(config, n) or None) != (getattr(plain, n) or None)]
    if config.init_lora_weights not in _PLAIN_STARTS:
        odd.append("init_lora_weights")
    if odd:
        raise InputError(f"{folder} cannot be combined: it is not plain LoRA, its {odd[0]} is set.")
    for name in ("rank_pattern", "alpha_pattern"):
        if not _by_module(getattr(config, name) or {}):
            raise InputError(f"{folder / adapters.CONFIG}: {name} is not a table of module names.")
    alphas = [config.lora_alpha, *(config.alpha_pattern or {}).values()]
    if not all(map(is_finite_number, alphas)):
        raise InputError(f"{folder / adapters.CONFIG}: lora_alpha is not a number.")


def _by_module(pattern: object) -> bool:
    """Tell whether `pattern` maps valid regular expressions, by which PEFT looks modules up."""
    try:
        get_pattern_key(list(pattern), "") if isinstance(pattern, Mapping) else None
    except re.error:
        return False
    return isinstance(pattern, Mapping)


def scale_of(config: LoraConfig, module: str = "") -> float:
    """Return PEFT's scaling of B A on a module; without `module`, the default for modules."""
    pattern, rank = config.alpha_pattern or {}, ranks.configured_rank(config, module)
    alpha = float(pattern.get(get_pattern_key(list(pattern), module), config.lora_alpha))
    return alpha / math.sqrt(rank) if config.use_rslora else alpha / rank
