"""The rank of each module: what an adapter's configuration gives it, and what its tensors have."""

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
"""The tensor whose rows are a module's rank, and the module in its name."""
_WRAPPER = "base_layer"
"""What ends the module's name for every further parameter of it that LoRA is on."""


@dataclass(frozen=True, slots=True)
class RankMismatch:
    """A module whose tensors have another rank than the configuration gives it."""

    module: str
    rank: int
    configured: int


def configured_rank(config: LoraConfig, module: str = "") -> int:
    """Return the rank that the configuration gives a module or parameter, as PEFT reads it.

    Raises InputError for a pattern that is no regular expression.
    """
    pattern = config.rank_pattern or {}
    try:
        return int(pattern.get(get_pattern_key(list(pattern), module), config.r))
    except re.error as error:
        raise InputError(
            f"The adapter's {adapters.CONFIG} is no LoRA configuration: its rank_pattern has "
            f"{error.pattern!r}, which is no regular expression."
        ) from None


def is_target(config: LoraConfig, module: str) -> bool:
    """Tell whether the configuration puts LoRA on a module, by its names or its pattern."""
    named = isinstance(config.target_modules, str | set | list) and config.target_modules
    try:
        return bool(named) and bool(check_target_module_exists(config, module))
    except re.error:  # PEFT refuses it
        return False


def may_be_target(config: LoraConfig, module: str) -> bool:
    """Tell whether LoRA can be on a module or on parameters of it, as far as is known without base.

    "all-linear", and a configuration that names no modules, are resolved with the base alone.
    """
    module = _unwrapped(module)
    unresolved = config.target_modules in (None, "all-linear")
    return unresolved or is_target(config, module) or bool(_parameters(config, module))


def rank_mismatches(
    config: LoraConfig, tensors: Mapping[str, torch.Tensor]
) -> Iterator[RankMismatch]:
    """Yield the modules whose tensors have another rank than the configuration gives them.

    A parameter of `target_parameters` may be of several experts, whose factors lie below each
    other: how many there are is in the base alone, so that a multiple of its rank is its rank here.
    Raises InputError for a pattern that is no regular expression.
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
    """Return the names that a module's own parameters of `target_parameters` have."""
    targets = config.target_parameters or ()
    names = ((f"{module}.{target.rpartition('.')[2]}", target) for target in targets)
    return [name for name, target in names if name == target or name.endswith(f".{target}")]


def check_ranks(config: LoraConfig, tensors: Mapping[str, torch.Tensor], folder: Path) -> None:
    """Refuse a rank that the tensors do not have, before layers of that rank are made."""
    for mismatch in rank_mismatches(config, tensors):
        if mismatch.configured > mismatch.rank:
            raise InputError(
                f"{folder} is an adapter for another base or configuration: its rank is "
                f"{mismatch.rank}, not {mismatch.configured} as {adapters.CONFIG} says of "
                f"{mismatch.module}."
            )
