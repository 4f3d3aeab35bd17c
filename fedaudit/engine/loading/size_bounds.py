"""Bounds on the modules and weights that a configuration may build, from the size of its files.

A configuration of a hundred bytes can ask for a billion layers, or for a terabyte of weights. The
size of a model's or an adapter's files shows how much is plausible.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig
from torch.func import functional_call
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from fedaudit.api.errors import InputError
from fedaudit.engine.loading import checkpoint, ranks
from fedaudit.federation import adapters

MODULES, MODULES_EACH = 2**12, 8
"""The modules allowed for any model, and further ones per tensor; a layer has two or three."""
WEIGHTS, WEIGHTS_EACH = 2**27, 16
"""The weights allowed for any model, and further ones per byte of its files, since some weights
take one bit and some exist twice."""
VALUES, VALUES_EACH = 2**25, 4
"""The values of one tensor allowed in a forward pass over a few tokens, and further ones per byte
of the model's files."""

_REGISTER: tuple[Callable[..., Any], ...] = (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
    register_module_module_registration_hook,
)


@contextmanager
def bounded_modules(source: str, *, modules: int, weights: int) -> Iterator[None]:
    """Raise InputError, naming `source`, as soon as more than this is built within the context.

    `weights` counts the elements of parameters and buffers, on any device. Only what this thread
    builds counts.
    """
    thread_id, remaining = threading.get_ident(), {"modules": modules, "weights": weights}

    def count(_module: torch.nn.Module, _name: str, member: Any) -> None:
        if threading.get_ident() != thread_id or member is None:
            return
        weight = isinstance(member, torch.Tensor)
        kind, size = ("weights", member.numel()) if weight else ("modules", 1)
        remaining[kind] -= size
        if remaining[kind] < 0:
            most = {"modules": modules, "weights": weights}[kind]
            raise InputError(
                f"{source} asks for more than {most:,} {kind}, far more than its files hold."
            )

    with ExitStack() as stack:
        for register in _REGISTER:
            stack.enter_context(register(count))
        yield


class _BoundedTensors(TorchFunctionMode):
    """Raises InputError for an operation whose result has more than `most` values."""

    def __init__(self, source: str, most: int) -> None:
        super().__init__()
        self.source, self.most = source, most

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        """Run an operation and look at the sizes of its results."""
        result = func(*args, **(kwargs or {}))
        for one in tree_leaves(result):
            if isinstance(one, torch.Tensor) and one.numel() > self.most:
                raise InputError(
                    f"{self.source} makes a tensor of {one.numel():,} values of a few tokens, far "
                    "more than its files hold."
                )
        return result


def check_forward(model: torch.nn.Module, folder: Path, ids: torch.Tensor) -> None:
    """Raise InputError for a model whose configuration makes its first forward pass huge.

    Sizes such as `max_seq_len` of an MPT model are first used there. The pass over `ids` (rows,
    tokens) computes shapes only and takes no memory; where a model cannot be run so, nothing is
    checked.
    """
    most = VALUES + VALUES_EACH * _file_bytes(folder)
    tensors = {
        name: tensor.to("meta")
        for name, tensor in (*model.named_parameters(), *model.named_buffers())
    }
    source = str(folder / "config.json")
    with torch.device("meta"), _BoundedTensors(source, most):
        try:
            functional_call(model, tensors, (), {"input_ids": ids.to("meta"), "use_cache": False})
        except InputError:
            raise
        except Exception:  # a model that needs the values of tensors to go on
            return


def _file_bytes(folder: Path) -> int:
    names = [name for name in checkpoint.files(folder) if name.endswith(".safetensors")]
    return sum((folder / name).stat().st_size for name in names)


def model_size(folder: Path) -> dict[str, int]:
    """Return the bounds for a model, from the number of tensors and the size of its files."""
    names = [name for name in checkpoint.files(folder) if name.endswith(".safetensors")]
    modules = MODULES + MODULES_EACH * checkpoint.count(folder, names)
    return {"modules": modules, "weights": WEIGHTS + WEIGHTS_EACH * _file_bytes(folder)}


def adapter_size(
    model: torch.nn.Module, config: LoraConfig, tensors: Mapping[str, torch.Tensor], folder: Path
) -> dict[str, int]:
    """Return the bounds for an adapter, from the base's modules and the size of its tensors.

    Raises InputError if the tensors have another rank on an embedding than the configuration: PEFT
    allocates an embedding's weights before they can be counted.
    """
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Embedding) and ranks.is_target(config, name):
            key = adapters.canonical(f"{name}.lora_embedding_A")
            rank = ranks.configured_rank(config, name)
            if key not in tensors or tensors[key].shape != (rank, module.num_embeddings):
                raise InputError(
                    f"{folder} is an adapter for another base or configuration: it has no {key} "
                    f"of {rank} x {module.num_embeddings}."
                )
    size = sum(tensor.numel() for tensor in tensors.values())
    return {"modules": 64 * sum(1 for _ in model.modules()), "weights": 2**20 + 8 * size}
