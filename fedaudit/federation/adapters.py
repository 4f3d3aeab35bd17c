"""LoRA adapters on disk: the PEFT folder, in safetensors only."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import InputError
from fedaudit.federation import adapter_options
from fedaudit.system.files import (
    Read,
    atomic,
    atomic_text,
    existing_path,
    hash_files,
    read_json,
    read_regular,
    sha256,
)
from fedaudit.system.tensor_files import reading_tensors

if TYPE_CHECKING:
    import torch

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PICKLED = ("adapter_model.bin", "adapter_model.pt")
"""Names of pickled files of weights, as other versions and trainers write them."""
VOCABULARY = ("tokenizer.json", "tokenizer.model", "vocab.json")
SPECIAL = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "merges.txt")
CHAT_TEMPLATE, PROCESSOR_TEMPLATE = "chat_template.jinja", "chat_template.json"
"""A chat template as transformers saves it now, and as it did beside a processor."""
TEMPLATES = "additional_chat_templates"
"""The folder of further chat templates, each a file NAME.jinja."""
TOKENIZER = (*VOCABULARY, *SPECIAL, CHAT_TEMPLATE, PROCESSOR_TEMPLATE)
"""Names of the files of a tokenizer, as trainers save it beside an adapter, but for TEMPLATES."""
LONGEST = 2**20
"""The most bytes of a configuration; the largest that PEFT writes have some ten thousand."""
DTYPES = ("float64", "float32", "bfloat16", "float16")
LARGEST_FILE = 2**36
"""The maximum size of a file of weights: the largest trained ones have a tenth of it."""
LARGEST = 1e6
"""The largest weight, far above any trained one: beyond it, answers would overflow."""
_ROOT = "base_model.model."
_COPY = re.compile(r"^(?!.*(?:\.|^)lora_).*\.(?:weight|bias)$")
"""Names of weights that belong to the base's layers, not to LoRA."""
_LAYER = ".base_layer."
"""PEFT's name for the base's layer within its own layer."""
_WRAPPED = re.compile(
    r"(?:^|(?<=\.))(?:_fsdp_wrapped_module|_checkpoint_wrapped_module|_orig_mod)\."
)
"""Parts that FSDP, activation checkpointing and torch.compile leave in tensor names."""
_INFIX = re.compile(r"(\.lora_(?:embedding_)?[AB])\.(?!(?:weight|bias)$)[^.]+")
_MAGNITUDE = re.compile(r"(\.lora_magnitude_vector)(?:\.[^.]+)?(?:\.weight)?$")
"""DoRA's magnitudes, which PEFT keeps as a module's weight and saves without its name."""


def check(folder: Path, read_file: Read = read_regular) -> Mapping[str, Any]:
    """Return the adapter's configuration, after checks that do not need torch.

    Raises InputError for a missing or pickled adapter and for one that is not LoRA.
    """
    existing_path(folder, "adapter")
    if not (folder / WEIGHTS).is_file():
        pickled = next((n for n in PICKLED if (folder / n).exists()), None)
        if pickled:
            raise InputError(
                f"{folder / pickled} is pickled, and a pickle can run code when it is loaded: "
                f"have its owner save it as {WEIGHTS}, or have `fedaudit import` open it, in a "
                "process with limits."
            )
        if part := next(folder.glob("adapter_model-*-of-*"), None):
            raise InputError(
                f"{folder} holds an adapter in several files ({part.name} and others), which are "
                f"not read: save it as {WEIGHTS}."
            )
        raise InputError(f"{folder} is not an adapter: it has no {WEIGHTS}.")
    if read_file is read_regular:  # a FileReader looks at the header before it hashes the file
        with reading_tensors(folder / WEIGHTS, LARGEST_FILE):
            pass
    return read_config(folder, read_file)


def read_config(folder: Path, read_file: Read = read_regular) -> Mapping[str, Any]:
    """Return the configuration in a folder, whether or not the weights are there yet.

    Raises InputError for one that is not of a LoRA adapter.
    """
    missing = f"{folder} is not an adapter: it has no {CONFIG}."
    config = read_json(folder / CONFIG, missing, read_file, LONGEST)
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        kind = config.get("peft_type") if isinstance(config, dict) else None
        raise InputError(f"{folder} is an adapter of type {kind!r}; fedaudit audits LoRA.")
    adapter_options.check(config, folder / CONFIG)
    return config


def read(folder: Path) -> dict[str, "torch.Tensor"]:
    """Return the adapter's tensors by name; raises InputError when they are broken or not finite.

    Prefixes and infixes that other trainers leave in the names are removed, and weights of the
    base's own layers are left out (`copies`).
    """
    check(folder)
    return read_weights(folder)


def read_weights(folder: Path) -> dict[str, "torch.Tensor"]:
    """Return the tensors as `read` does, of an adapter whose configuration was checked."""
    import torch
    from safetensors.torch import load_file

    path = folder / WEIGHTS
    with reading_tensors(path):
        tensors = load_file(path)
    tensors = {name: tensor for name, tensor in tensors.items() if not _COPY.search(name)}
    for name, tensor in tensors.items():
        if (kind := str(tensor.dtype).removeprefix("torch.")) not in DTYPES or not tensor.ndim:
            shape = "x".join(map(str, tensor.shape)) or "no shape"
            raise InputError(f"{path}: tensor {name} is of {shape} and {kind}, no LoRA weight.")
        if not torch.isfinite(tensor).all():
            raise InputError(f"{path}: tensor {name} holds NaN or infinite values.")
        if tensor.numel() and tensor.abs().max() > LARGEST:
            raise InputError(f"{path}: tensor {name} holds weights above {LARGEST:.0e}.")
    if not tensors:
        raise InputError(f"{path} holds no tensor.")
    renamed = {canonical(name): tensor for name, tensor in tensors.items()}
    if len(renamed) < len(tensors):
        raise InputError(f"{path} holds several adapters; have them saved apart.")
    return renamed


def copies(folder: Path) -> dict[str, "torch.Tensor"]:
    """Return the base's own weights that PEFT saved beside the adapter, by their names in the base.

    PEFT saves embeddings and output layers if the adapter is on them or if the vocabulary grew.
    """
    from safetensors import safe_open

    weights = {}
    path = folder / WEIGHTS
    with reading_tensors(path), safe_open(path, "pt") as file:
        for name in file.keys():  # noqa: SIM118, it is not a mapping
            if _COPY.search(name):
                plain = canonical(name).replace(_LAYER, ".").removeprefix(_ROOT)
                weights[plain] = file.get_tensor(name)
    return weights


def tokenizer_files(folder: Path) -> list[str]:
    """Return the names of the files of a tokenizer in a folder, with `/`."""
    further = sorted(f"{TEMPLATES}/{path.name}" for path in (folder / TEMPLATES).glob("*.jinja"))
    return [name for name in (*TOKENIZER, *further) if (folder / name).is_file()]


def is_chat_template(name: str) -> bool:
    """Tell whether a tokenizer's file holds nothing but a chat template."""
    return name in (CHAT_TEMPLATE, PROCESSOR_TEMPLATE) or (
        name.startswith(f"{TEMPLATES}/") and name.endswith(".jinja") and name.count("/") == 1
    )


def fingerprint(folder: Path, sha256: Callable[[Path], str] = sha256) -> str:
    """Return one SHA-256 over an adapter's files: configuration, weights and saved tokenizer."""
    names = [name for name in (CONFIG, WEIGHTS) if (folder / name).is_file()]
    names += tokenizer_files(folder)
    return hash_files({name: sha256(folder / name) for name in names})


def fingerprint_below(folder: Path, sha256: Callable[[Path], str] = sha256) -> str:
    """Return one SHA-256 over all adapters below a folder, and a gate's weights, without keys."""
    paths = [path for name in ("*.safetensors", CONFIG) for path in folder.rglob(name)]
    return hash_files({path.relative_to(folder).as_posix(): sha256(path) for path in paths})


@lru_cache(maxsize=4096)
def tensors_sha256(folder: Path, weights_sha256: str) -> str:  # noqa: ARG001, a key of the cache
    """Return a SHA-256 of the contents of an adapter's tensors: their names, shapes and numbers.

    The hash does not depend on the order, metadata and dtype in which the tensors are saved.
    `weights_sha256` is the hash of the file of weights, by which results are cached, so that the
    file is read once. Raises InputError as `read` does.
    """
    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(read(folder).items()):
        single = tensor.float()
        exact = single if torch.equal(single.to(tensor.dtype), tensor) else tensor.double()
        digest.update(f"{name} {tuple(exact.shape)} {exact.dtype}\n".encode())
        digest.update((exact + 0.0).contiguous().numpy().tobytes())  # -0 is 0
    return digest.hexdigest()


def write(tensors: Mapping[str, "torch.Tensor"], config: Mapping[str, Any], folder: Path) -> None:
    """Write an adapter folder; each of its files is whole or absent."""
    from safetensors.torch import save_file

    with atomic(folder / WEIGHTS) as temporary:
        save_file({name: t.contiguous() for name, t in sorted(tensors.items())}, temporary)
    atomic_text(folder / CONFIG, json.dumps(config, indent=2, sort_keys=True) + "\n")


def remove(folder: Path) -> None:
    """Remove an adapter that was written here, and its folder and the one above if empty then."""
    for name in (WEIGHTS, CONFIG):
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()
        folder.parent.rmdir()


def shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor that `read` returns, from the file's header alone."""
    from safetensors import safe_open

    path = folder / WEIGHTS
    with reading_tensors(path), safe_open(path, "pt") as file:
        return {
            canonical(name): tuple(file.get_slice(name).get_shape())
            for name in file.keys()  # noqa: SIM118, it is not a mapping
            if not _COPY.search(name)
        }


def resized_config(
    config: Mapping[str, Any], start: Mapping[str, Any], tensors: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the configuration for `tensors`, made of `start`, whose configuration is `config`.

    Tensors of other shapes are of one rank in all modules; the scaling is kept.
    """
    if all(tensor.shape == start[name].shape for name, tensor in tensors.items()):
        return dict(config)
    rank = max(
        tensor.shape[0] for name, tensor in tensors.items() if name.endswith(".lora_A.weight")
    )
    power = 0.5 if config.get("use_rslora") else 1.0
    alpha = config["lora_alpha"] * (rank / config["r"]) ** power
    return {**config, "r": rank, "lora_alpha": int(alpha) if alpha == int(alpha) else alpha}


def read_state(path: Path) -> dict[str, dict[str, "torch.Tensor"]]:
    """Return the state that `write_state` saved in the file `path`; empty if there is no file."""
    if not path.is_file():
        return {}
    from safetensors.torch import load_file

    state: dict[str, dict[str, torch.Tensor]] = {}
    with reading_tensors(path):
        tensors = load_file(path)
    for name, tensor in tensors.items():
        section, _, tensor_name = name.partition("/")
        state.setdefault(section, {})[tensor_name] = tensor
    return state


def write_state(state: Mapping[str, Mapping[str, "torch.Tensor"]], path: Path) -> None:
    """Write a server's or client's state, whole or not at all; no file for an empty one."""
    if not state:
        return
    from safetensors.torch import save_file

    flat = {
        f"{section}/{name}": t for section, tensors in state.items() for name, t in tensors.items()
    }
    with atomic(path) as temporary:
        save_file({name: tensor.contiguous() for name, tensor in flat.items()}, temporary)


def canonical(name: str) -> str:
    """Return a tensor name in the form that PEFT saves: base_model.model.(...).lora_A.weight.

    Known foreign forms: a wrapper's prefix (NVFlare's `model.`, DDP's `module.`) or infix (FSDP's
    `_fsdp_wrapped_module.`), a missing or doubled `base_model.model.`, and the adapter's name as
    infix (`lora_A.default.weight`). DoRA's `lora_magnitude_vector` has no `.weight`.
    """
    _, wrapped, inner = (name := _WRAPPED.sub("", name)).rpartition(_ROOT)
    name = _ROOT + (inner if wrapped else name.removeprefix("module."))
    return _MAGNITUDE.sub(r"\1", _INFIX.sub(r"\1", name))
