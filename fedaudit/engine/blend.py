"""Adapters blended into one: c1 w1 + c2 w2 + ..., where w = s B A is what an adapter adds.

The sum is of the products (SecureGate, arXiv:2602.13529, equations 2, 6 and 8), and stacking makes
it exact: with A = [A1; A2] and B = [c1 B1, c2 B2] there is B A = c1 B1 A1 + c2 B2 A2, an ordinary
adapter whose rank is the sum of the ranks. LoRAHub, whose search SecureGate takes over, sums A and
B apart in its code: (c1 B1 + c2 B2)(c1 A1 + c2 A2) squares the weights and adds the cross terms
c1 c2 (B1 A2 + B2 A1).

The scaling s (alpha over r, or over its root with use_rslora, by module where patterns say so) may
differ: the blend has the first adapter's, and what the others' differ by goes into their B.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel
from peft.tuners.lora import LoraLayer
from peft.utils.other import get_pattern_key

from fedaudit.engine import loader
from fedaudit.engine.local import LocalEngine
from fedaudit.errors import InputError
from fedaudit.federation import adapters
from fedaudit.records import Target

_ROOT, _A, _B = "base_model.model.", ".lora_A.weight", ".lora_B.weight"
_SELECTION = ("target_modules", "exclude_modules", "layers_to_transform", "layers_pattern")
_PLAIN_STARTS = (True, False, None, "gaussian", "orthogonal")
"""Ways that training may have begun; the others (PiSSA, for one) change the base as well."""
_ACCOUNTED = frozenset(
    {
        *("task_type", "peft_type", "auto_mapping", "peft_version", "inference_mode", "revision"),
        *("base_model_name_or_path", "runtime_config", "megatron_core", "qalora_group_size"),
        *("r", "lora_alpha", "use_rslora", "rank_pattern", "alpha_pattern", *_SELECTION),
        *("lora_dropout", "init_lora_weights", "fan_in_fan_out"),
    }
)
"""Options that stacking folds in, that it checks, or that do not change what an adapter answers."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One adapter: by module A (r, in), B (out, r) and the scaling of their product."""

    folder: Path
    config: LoraConfig
    pairs: Mapping[str, tuple[torch.Tensor, torch.Tensor]]
    scales: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Stack:
    """Adapters side by side, every weight still 1."""

    tensors: Mapping[str, torch.Tensor]
    ranks: Mapping[str, Sequence[int]]
    """For the name of each B, how many of its columns are each adapter's."""
    config: LoraConfig
    changes: Mapping[str, Any]
    """What its configuration has other than the first adapter's."""


class Blend:
    """Adapters that a model carries as one; only their weights change from question to question."""

    def __init__(self, engine: LocalEngine, model: PeftModel, name: str, stack: _Stack) -> None:
        self._model, self._name, self._stack = model, name, stack
        place = model.device
        self._whole = {key: stack.tensors[key].to(place) for key in stack.ranks}
        self._parameters = {
            found: parameter
            for key, parameter in model.named_parameters()
            if (found := key.replace(f".{name}.", ".")) in stack.ranks and f".{name}." in key
        }
        # PEFT puts its layers into the base's own modules. So what an engine without adapters
        # takes for the base is the base with the adapter that is active.
        self._view = LocalEngine(engine.base, batch_size=engine.rows, tokens=engine.tokens)

    def scores(
        self, weights: Sequence[float], sequences: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """Return ln p of every token but the first of each sequence, as `LocalEngine.score`."""
        with torch.no_grad():
            for key, whole in self._whole.items():
                columns = _columns(weights, self._stack.ranks[key])
                self._parameters[key].copy_(whole * columns.to(whole.device))
        self._model.set_adapter(self._name)
        self._model.eval()
        return self._view.score(Target(name="blend"), sequences)

    def loss(self, weights: Sequence[float], sequences: Sequence[Sequence[int]]) -> float:
        """Return the mean loss of the tokens of all `sequences`, in nats.

        Every token counts alike, whatever sequence or batch it is in. It is not finite where a
        score is not. LoRAHub's code divides a sum over batches by the number of examples, so its
        loss depends on the batch size. Raises InputError where there is no token to predict.
        """
        return mean_loss(self.scores(weights, sequences))


def mean_loss(scores: Sequence[Sequence[float]]) -> float:
    """Return minus the mean of all scores; raises InputError where there is none."""
    count = sum(map(len, scores))
    if not count:
        raise InputError("There is no loss to measure: no text has two tokens.")
    return -math.fsum(score for row in scores for score in row) / count


def stacked(
    folders: Sequence[Path], weights: Sequence[float]
) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Return tensors (float32) and configuration of the adapter that is the weighted sum of others.

    One weight for each of `folders`, at least one. Raises InputError for an adapter whose answers
    are more than sums of B A (DoRA, trained biases or embeddings), and for shapes that differ.
    """
    stack = _stack(folders)
    tensors = dict(stack.tensors)
    for name, ranks in stack.ranks.items():
        tensors[name] = tensors[name] * _columns(weights, ranks)
    return tensors, {**adapters.check(folders[0]), **stack.changes}


@contextmanager
def attached(engine: LocalEngine, folders: Sequence[Path]) -> Iterator[Blend]:
    """Attach adapters as one and take them off again at the end: the engine is as it was.

    Meanwhile the engine may be asked about any other target.
    """
    stack = _stack(folders)
    before = engine.model
    known = set(before.peft_config) if isinstance(before, PeftModel) else set()
    name = f"blend{len(known)}"
    with _restored(engine, name):
        model = loader.with_adapter(before, stack.config, name, trainable=False)
        engine.model = model
        loader.fit(model, stack.tensors, name, " with ".join(map(str, folders)))
        yield Blend(engine, model, name, stack)


@contextmanager
def _restored(engine: LocalEngine, name: str) -> Iterator[None]:
    """Take the adapter `name` off at the end; what is active, trainable and in training stays."""
    model = engine.base.model
    active = engine.model.active_adapter if isinstance(engine.model, PeftModel) else None
    gradients = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        _detach(engine, name, active)
        for parameter, wanted in gradients:
            parameter.requires_grad_(wanted)
        for module, mode in modes:
            module.training = mode


def _detach(engine: LocalEngine, name: str, active: str | None) -> None:
    """Delete the adapter `name`, and PEFT's layers where it was the only one."""
    model = engine.model
    if not isinstance(model, PeftModel):
        return
    others = [other for other in model.peft_config if other != name]
    if not others:
        model.unload()
        engine.model = engine.base.model
        return
    model.set_adapter(active if active in others else others[0])
    if name in model.peft_config:
        model.delete_adapter(name)
    for path, layer in list(model.named_modules()):
        if isinstance(layer, LoraLayer) and not layer.r:  # no adapter is left on it
            parent, _, child = path.rpartition(".")
            setattr(model.get_submodule(parent), child, layer.get_base_layer())


def _columns(weights: Sequence[float], ranks: Sequence[int]) -> torch.Tensor:
    """Return each column's weight (sum of ranks,): an adapter's weight for each of its columns."""
    if len(weights) != len(ranks) or not all(map(math.isfinite, weights)):
        raise ValueError(f"{len(ranks)} adapters are blended by as many finite weights.")
    return torch.tensor(weights, dtype=torch.float32).repeat_interleave(torch.tensor(ranks))


def _stack(folders: Sequence[Path]) -> _Stack:
    """Return the adapters side by side: A (sum of r, in), and B (out, sum of r) scaled alike."""
    if not folders:
        raise ValueError("There is no adapter to blend.")
    parts = [_part(folder) for folder in folders]
    modules = sorted({module for part in parts for module in part.pairs})
    ranks = {module: [_rank(part, module) for part in parts] for module in modules}
    most, scale = max(map(sum, ranks.values())), _scale(parts[0].config) or 1.0
    alpha, tensors = scale * most, {}
    for module in modules:
        _check_shapes(parts, module)
        own = alpha / sum(ranks[module])
        pairs = [(*p.pairs[module], p.scales[module] / own) for p in parts if module in p.pairs]
        tensors[_ROOT + module + _A] = torch.cat([a.float() for a, _, _ in pairs])
        tensors[_ROOT + module + _B] = torch.cat([b.float() * f for _, b, f in pairs], dim=1)
    changes = {
        "r": most,
        "lora_alpha": int(alpha) if alpha == int(alpha) else alpha,
        "use_rslora": False,
        "rank_pattern": {f"^{m}": sum(ranks[m]) for m in modules if sum(ranks[m]) != most},
        "alpha_pattern": {},
        "inference_mode": True,
        **_selection(parts, modules),
    }
    named = {_ROOT + module + _B: ranks[module] for module in modules}
    return _Stack(tensors, named, replace(parts[0].config, **changes), changes)


def _selection(parts: Sequence[_Part], modules: Sequence[str]) -> dict[str, Any]:
    """Return which modules the blend is on; nothing where all adapters say it alike."""
    first = parts[0]
    if all(
        part.pairs.keys() == first.pairs.keys()
        and all(getattr(part.config, key) == getattr(first.config, key) for key in _SELECTION)
        for part in parts
    ):
        return {}
    return dict.fromkeys(_SELECTION) | {"target_modules": list(modules)}


def _part(folder: Path) -> _Part:
    """Return the adapter in `folder`; raises InputError for one that is not plain LoRA."""
    tensors, config = adapters.read(folder), loader.configuration(folder)
    _check_options(config, folder)
    names = [name.removesuffix(_A) for name in tensors if name.endswith(_A)]
    pairs = {n.removeprefix(_ROOT): (tensors.get(n + _A), tensors.get(n + _B)) for n in names}
    foreign = tensors.keys() - {name + end for name in names for end in (_A, _B)}
    if foreign:
        raise InputError(f"{folder} cannot be blended: {min(foreign)} is not of plain LoRA.")
    whole = {}
    for module, (a, b) in pairs.items():
        rank = _configured_rank(config, module)
        if a is None or b is None or a.ndim != 2 or b.ndim != 2 or a.shape[0] != b.shape[1]:
            raise InputError(f"{folder} cannot be blended: A and B of {module} make no product.")
        if a.shape[0] != rank:
            raise InputError(
                f"{folder} cannot be blended: the rank of {module} is {a.shape[0]}, not {rank} as "
                f"{adapters.CONFIG} says."
            )
        whole[module] = (a, b)
    return _Part(folder, config, whole, {module: _scale(config, module) for module in whole})


def _check_options(config: LoraConfig, folder: Path) -> None:
    """Raise InputError for an option that makes an adapter more than a sum of B A."""
    plain = LoraConfig()
    names = [field.name for field in fields(LoraConfig) if field.name not in _ACCOUNTED]
    odd = [n for n in names if (getattr(config, n) or None) != (getattr(plain, n) or None)]
    if config.init_lora_weights not in _PLAIN_STARTS:
        odd.append("init_lora_weights")
    if odd:
        raise InputError(f"{folder} cannot be blended: it is no plain LoRA, its {odd[0]} is set.")
    alphas = [config.lora_alpha, *(config.alpha_pattern or {}).values()]
    if not all(isinstance(alpha, int | float) and math.isfinite(alpha) for alpha in alphas):
        raise InputError(f"{folder / adapters.CONFIG}: lora_alpha is not a number.")


def _check_shapes(parts: Sequence[_Part], module: str) -> None:
    """Raise InputError unless the products of all adapters on a module have one shape."""
    found = [(p.folder, *p.pairs[module]) for p in parts if module in p.pairs]
    shapes = {f"{b.shape[0]} x {a.shape[1]}": folder for folder, a, b in found}
    if len(shapes) > 1:
        (first, one), (second, other) = list(shapes.items())[:2]
        raise InputError(
            f"{one} and {other} are adapters for different bases: {module} is {first} in the one "
            f"and {second} in the other."
        )


def _rank(part: _Part, module: str) -> int:
    """Return the rank that an adapter has on a module, 0 where it leaves it alone."""
    return part.pairs[module][0].shape[0] if module in part.pairs else 0


def _configured_rank(config: LoraConfig, module: str = "") -> int:
    """Return the rank that the configuration gives a module, as PEFT reads it."""
    pattern = config.rank_pattern or {}
    return int(pattern.get(get_pattern_key(list(pattern), module), config.r))


def _scale(config: LoraConfig, module: str = "") -> float:
    """Return what PEFT multiplies B A by on a module; on most of them without one."""
    pattern, rank = config.alpha_pattern or {}, _configured_rank(config, module)
    alpha = float(pattern.get(get_pattern_key(list(pattern), module), config.lora_alpha))
    return alpha / math.sqrt(rank) if config.use_rslora else alpha / rank
