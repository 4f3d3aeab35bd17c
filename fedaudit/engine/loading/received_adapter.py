"""Arrays that a framework sends, as the tensors of a LoRA adapter, or why they are none."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import FedauditError, InputError
from fedaudit.federation import adapters

if TYPE_CHECKING:
    import torch

Shapes = Mapping[str, tuple[int, ...]]

_MODULE = re.compile(r"base_model\.model\.(.+)\.lora_(?:embedding_)?[AB](?:\.weight)?")


def known_shapes(base: str, folder: Path) -> Shapes | None:
    """Return the shape of each tensor that the configuration in `folder` gives on a base.

    They are in the order in which PEFT saves them. None where the base is not on this machine.
    """
    from fedaudit.engine.loading import loader

    try:
        loader.locate(base, fetch=False)
    except FedauditError:
        return None
    return loader.adapter_shapes(base, folder)


def adapter_tensors(
    sent: "Mapping[str, torch.Tensor]",
    shapes: Shapes | None,
    config: Mapping[str, Any],
    owner: str,
) -> "dict[str, torch.Tensor]":
    """Return what was sent by the names that PEFT saves.

    Arrays without names, called "0", "1" and so on, are taken in PEFT's order. Raises InputError,
    in a line naming `owner`, where they are not those of the LoRA configuration.
    """
    names = _names(list(sent), shapes, owner)
    tensors = dict(zip(names, sent.values(), strict=True))
    actual = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if shapes is None:
        _check_modules(tensors, config, owner)
    else:
        _check_same(actual, shapes, owner)
    return tensors


def _names(keys: Sequence[str], shapes: Shapes | None, owner: str) -> list[str]:
    if not keys:
        raise InputError(f"{owner} holds no arrays.")
    if keys != [str(number) for number in range(len(keys))]:
        names = [adapters.canonical(key) for key in keys]
        if len(set(names)) < len(names):
            raise InputError(f"{owner} holds several adapters: send one.")
        return names
    if shapes is None:
        raise InputError(
            f"{owner} holds arrays without names, and the base that would tell them is not on this "
            "machine: send ArrayRecord(get_peft_model_state_dict(model))."
        )
    if len(keys) != len(shapes):
        raise InputError(
            f"{owner} holds {len(keys)} arrays; the LoRA configuration makes {len(shapes)}."
        )
    return list(shapes)


def _check_same(actual: Shapes, shapes: Shapes, owner: str) -> None:
    """Raise InputError unless names and shapes are those of the configuration on the base."""
    for name, shape in actual.items():
        if name not in shapes:
            near = get_close_matches(name, shapes, n=1)
            hint = f"; the nearest of them is {near[0]!r}" if near else ""
            raise InputError(f"{owner} holds {name!r}, no tensor of the LoRA configuration{hint}.")
        if shape != shapes[name]:
            raise InputError(
                f"{owner}: {name!r} is {_size(shape)}; the LoRA configuration makes it "
                f"{_size(shapes[name])}."
            )
    if missing := [name for name in shapes if name not in actual]:
        raise InputError(f"{owner} lacks {missing[0]!r}, which the LoRA configuration makes.")


def _check_modules(
    tensors: "Mapping[str, torch.Tensor]", config: Mapping[str, Any], owner: str
) -> None:
    """Raise InputError for what cannot be of the configuration, as far as it says so by itself."""
    from peft import LoraConfig

    from fedaudit.engine.loading import ranks

    lora = LoraConfig.from_peft_type(**config)
    mismatch = next(ranks.rank_mismatches(lora, tensors), None)  # it tries patterns with limits
    for name in tensors:
        module = _MODULE.fullmatch(name)
        if module is None or not ranks.may_be_target(lora, module[1]):
            raise InputError(f"{owner} holds {name!r}, no tensor of the LoRA configuration.")
    if mismatch:
        raise InputError(
            f"{owner}: {mismatch.module} has the rank {mismatch.rank}; the LoRA configuration "
            f"says {mismatch.configured}."
        )


def _size(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "a single number"
