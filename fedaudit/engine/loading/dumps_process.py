"""The sandboxed side of `dumps`, which opens files of torch.save and numpy.savez."""

import re
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save

from fedaudit.api.errors import InputError
from fedaudit.federation import adapters
from fedaudit.system.failures import first_line
from fedaudit.system.sandbox import Output

WRAPPERS = ("model", "state_dict", "model_state_dict", "adapter", "params")
"""Keys under which frameworks store a state dict among other things."""
TRAINED = ("modules_to_save", "trainable_tokens")
"""Parts of the names of weights that PEFT trains besides LoRA, without which the model is another
one."""
SAFE = (2, 6)
"""The first torch version whose `weights_only` has no known bypass (CVE-2025-32434)."""
MOST, SHOWN, LONGEST = 10**5, 20, 100
"""The maximum number of tensors in a file, of reported top-level keys, of characters of each."""

State = Mapping[str, torch.Tensor]


def look(payload: Any) -> Generator[str, None, list[dict[str, Any]]]:
    """Return a description of each file, or why it is refused; yield the file opened next."""
    entries = []
    for path in map(Path, payload):
        yield str(path)
        try:
            entries.append(_describe_dump(path, _load(path)))
        except InputError as error:
            entries.append({"refused": str(error)})
    return entries


def read_table(payload: Any) -> Generator[str, None, list[list[float]]]:
    """Return the rows of a .npy file."""
    path = Path(payload)
    yield str(path)
    try:
        table = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{path} is not a numeric .npy file ({_first(error)}).") from None
    if not isinstance(table, np.ndarray) or table.ndim != 2 or table.dtype.kind not in "iuf":
        raise InputError(f"{path} is not a table of numbers.")
    return [[float(value) for value in row] for row in table]


def convert(payload: Any) -> Generator[str | Output, None, list[int]]:
    """Yield each file's LoRA weights as safetensors; return the number of its other tensors."""
    omitted_counts = []
    for number, request in enumerate(payload):
        path = Path(request["path"])
        yield str(path)
        state = _state(_load(path), path)
        tensors = (
            state if request["shapes"] is None else _assign_names(state, request["shapes"], path)
        )
        chosen = {name: tensor for name, tensor in tensors.items() if "lora_" in name}
        if not chosen:
            raise InputError(f"{path} holds no LoRA weights.")
        if extra := [name for name in tensors if any(fragment in name for fragment in TRAINED)]:
            raise InputError(
                f"{path} cannot be imported: beside LoRA it trained {extra[0]}, and fedaudit "
                "audits LoRA alone."
            )
        omitted_counts.append(len(tensors) - len(chosen))
        yield Output(number, save(_canonical(chosen, path)))
    return omitted_counts


def _canonical(chosen: State, path: Path) -> dict[str, torch.Tensor]:
    tensors = {adapters.canonical(name): t.detach().clone().contiguous() for name, t in
               sorted(chosen.items())}  # fmt: skip
    if len(tensors) < len(chosen):
        raise InputError(f"{path} holds several adapters; have them saved apart.")
    return tensors


def _assign_names(state: State, shapes: Iterable[Any], path: Path) -> dict[str, torch.Tensor]:
    """Return arrays without names under the names in `shapes`, assigned by order.

    Raises InputError if the number or a shape does not match.
    """
    expected = [(str(name), tuple(shape)) for name, shape in shapes]
    if len(expected) != len(state):
        raise InputError(
            f"{path} has {len(state):,} arrays, and such an adapter on this base has "
            f"{len(expected):,} tensors: base or targets are others."
        )
    for (name, shape), (array_name, tensor) in zip(expected, state.items(), strict=True):
        if tuple(tensor.shape) != shape:
            raise InputError(
                f"{path}: {array_name} is {_dimensions(tensor.shape)}, and {name}, which is in its "
                f"place, {_dimensions(shape)}: base, r or targets are others."
            )
    return {name: tensor for (name, _), tensor in zip(expected, state.values(), strict=True)}


def _dimensions(shape: Iterable[int]) -> str:
    return " x ".join(map(str, shape)) or "a number"


def _describe_dump(path: Path, loaded: Any) -> dict[str, Any]:
    state = _state(loaded, path)
    top = loaded if isinstance(loaded, dict) and not _ordered(state) else {}
    numbers = {str(key): value for key, value in top.items() if type(value) is int}
    return {
        "keys": [str(key)[:LONGEST] for key in top][:SHOWN] if top is not state else [],
        "numbers": {key[:LONGEST]: value for key, value in [*numbers.items()][:SHOWN]},
        "shapes": [(name, [*tensor.shape]) for name, tensor in state.items()],
        "lora": any("lora_" in name for name in state),
        "ordered": _ordered(state),
    }


def _ordered(state: State) -> bool:
    """Tell whether all arrays have the names that numpy.savez gives to unnamed arrays."""
    return bool(state) and all(name.startswith("arr_") for name in state)


def _state(loaded: Any, path: Path) -> State:
    """Return a file's tensors by name: those at its top level, or else in the first of WRAPPERS."""
    tables = [loaded, *(loaded.get(name) for name in WRAPPERS)] if isinstance(loaded, dict) else []
    for table in tables:
        if isinstance(table, dict):
            tensors = {str(k): t for k, v in table.items() if (t := _tensor(v)) is not None}
            if tensors:
                break
    else:
        raise InputError(f"{path} holds no tensors by name.")
    if len(tensors) > MOST:
        raise InputError(f"{path} holds over {MOST:,} tensors.")
    return tensors


def _tensor(value: Any) -> torch.Tensor | None:
    """Return a tensor, a numeric array as a tensor, or None for anything else."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        return torch.from_numpy(np.ascontiguousarray(value))
    return value if isinstance(value, torch.Tensor) else None


def _load(path: Path) -> Any:
    if path.suffix == ".npz":
        return _load_arrays(path)
    version = tuple(int(x) for x in torch.__version__.split(".")[:2])
    if version < SAFE:
        raise InputError(
            f"{path} is pickled, and torch {torch.__version__} can be made to run code of such a "
            f"file: install torch {'.'.join(map(str, SAFE))} or later."
        )
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except MemoryError:
        raise
    except Exception as error:
        raise InputError(
            f"{path} is not opened: {_reason(error)}. Have its owner save the adapter in "
            "safetensors."
        ) from None


def _reason(error: Exception) -> str:
    """Return what a file holds besides weights, or how it is broken."""
    named = re.search(r"(?:GLOBAL|global) ([\w.]+)", str(error))
    return (
        f"it holds more than weights ({named[1]})" if named else f"it is broken ({_first(error)})"
    )


def _load_arrays(path: Path) -> dict[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as file:
            if isinstance(file, np.ndarray) or len(file.files) > MOST:
                raise ValueError("no archive of arrays")
            numbered = all(n.startswith("arr_") and n[4:].isdecimal() for n in file.files)
            names = sorted(file.files, key=lambda n: int(n[4:])) if numbered else file.files
            arrays = {name: file[name] for name in names}
    except MemoryError:
        raise
    except Exception as error:
        raise InputError(f"{path} is not a file of numeric arrays ({_first(error)}).") from None
    return arrays


def _first(error: Exception) -> str:
    return first_line(error)[:120].rstrip(".")
