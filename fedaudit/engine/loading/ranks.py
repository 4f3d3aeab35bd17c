"""The rank of each module in an adapter's configuration, compared with that of its tensors."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from peft import LoraConfig
from peft.tuners.tuners_utils import check_target_module_exists
from peft.utils.other import get_pattern_key

from fedaudit.api.errors import InputError
from fedaudit.engine.loading import module_patterns
from fedaudit.federation import adapters

_FIRST_FACTOR = re.compile(r"base_model\.model\.(.+)\.lora_(?:A\.weight|embedding_A)")
"""The name of the tensor whose row count is a module's rank; group 1 is the module."""
_WRAPPER = "base_layer"
"""The suffix of a module's name for each further parameter of the module that LoRA adapts."""


@dataclass(frozen=True, slots=True)
class RankMismatch:
    """A module whose tensors have another rank than the configuration says."""

    module: str
    rank: int
    configured: int


def configured_rank(config: LoraConfig, module: str = "") -> int:
    """Return the rank that PEFT reads from the configuration for a module or parameter.

    Raises InputError for an invalid regular expression in rank_pattern.
    """
    pattern = config.rank_pattern or {}
    try:
        return int(pattern.get(get_pattern_key(list(pattern), module), config.r))
    except re.error as error:
        raise InputError(
            f"The adapter's {adapters.CONFIG} is not a LoRA configuration: its rank_pattern has "
            f"{error.pattern!r}, which is not a regular expression."
        ) from None


def is_target(config: LoraConfig, module: str) -> bool:
    """Tell whether the configuration's target_modules, names or a pattern, match a module."""
    named = isinstance(config.target_modules, str | set | list) and config.target_modules
    try:
        return bool(named) and bool(check_target_module_exists(config, module))
    except re.error:  # PEFT refuses it
        return False


def may_be_target(config: LoraConfig, module: str) -> bool:
    """Tell whether LoRA may adapt a module or its parameters, as far as is known without the base.

    "all-linear", and a configuration that names no modules, can only be resolved with the base.
    """
    module = _unwrapped(module)
    unresolved = config.target_modules in (None, "all-linear")
    return unresolved or is_target(config, module) or bool(_parameters(config, module))


def rank_mismatches(
    config: LoraConfig, tensors: Mapping[str, torch.Tensor]
) -> Iterator[RankMismatch]:
    """Yield the modules whose tensors have another rank than the configuration says.

    A parameter of `target_parameters` may belong to several experts, whose factors are stacked.
    Only the base tells their number, so any multiple of the configured rank is accepted for such a
    parameter. Raises InputError for an invalid regular expression.
    """
    matches = ((_FIRST_FACTOR.fullmatch(name), tensor) for name, tensor in tensors.items())
    ranks = [(_unwrapped(match[1]), tensor.shape[0]) for match, tensor in matches if match]
    named = {module: _parameters(config, module) for module, _ in ranks}
    module_patterns.check(config, [*named, *(name for names in named.values() for name in names)])
    for module, rank in ranks:
        parameters = [] if is_target(config, module) else named[module]
        configured = [configured_rank(config, name) for name in parameters or [module]]
        multiples = (rank % unit == 0 for unit in configured if parameters and rank)
        if rank not in configured and not any(multiples):
            yield RankMismatch(module, rank, min(configured))


def _unwrapped(module: str) -> str:
    parts = module.split(".")
    while parts[-1] == _WRAPPER:
        parts.pop()
    return ".".join(parts)


def _parameters(config: LoraConfig, module: str) -> list[str]:
    """Return the full names of those `target_parameters` that are parameters of a module."""
    targets = config.target_parameters or ()
    names = ((f"{module}.{target.rpartition('.')[2]}", target) for target in targets)
    return [name for name, target in names if name == target or name.endswith(f".{target}")]


def check_ranks(config: LoraConfig, tensors: Mapping[str, torch.Tensor], folder: Path) -> None:
    """Raise InputError if a configured rank exceeds the tensors', before PEFT allocates layers."""
    for mismatch in rank_mismatches(config, tensors):
        if mismatch.configured > mismatch.rank:
            raise InputError(
                f"{folder} is an adapter for another base or configuration: its rank is "
                f"{mismatch.rank}, not {mismatch.configured} as {adapters.CONFIG} says of "
                f"{mismatch.module}."
            )
