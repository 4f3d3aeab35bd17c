"""Loading a base by its name, and attaching adapters that fit it exactly."""

import logging
import os
import shlex
import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model_state_dict, set_peft_model_state_dict
from peft.tuners.tuners_utils import BaseTunerLayer
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.utils import logging as transformers_logging

from fedaudit import nano
from fedaudit.api.errors import InputError, TargetError
from fedaudit.api.records import Tokens
from fedaudit.engine.device import device_for, dtype_for
from fedaudit.engine.loading import (
    adapter_layout,
    checkpoint,
    model_check,
    module_patterns,
    quarantine,
    ranks,
    saved_tokenizer,
)
from fedaudit.engine.loading.size_bounds import adapter_size, bounded_modules, model_size
from fedaudit.federation import adapters
from fedaudit.system.failures import first_line
from fedaudit.system.files import suggest_neighbour

_log = logging.getLogger(__name__)

UNBOUNDED = 2**20
"""The context length of a model without a limit, such as one with relative positions."""


@dataclass(frozen=True)
class LoadedBase:
    """A base model in memory, its tokenizer, and the fingerprint of its files."""

    name: str
    path: Path
    sha256: str
    model: PreTrainedModel
    tokenizer: Any

    @property
    def context_length(self) -> int:
        """The model's number of positions, or the tokenizer's limit if the model has none."""
        config = self.model.config.get_text_config()
        positions = int(getattr(config, "max_position_embeddings", None) or 0)
        # XLNet says -1 for no limit.
        return positions if positions > 0 else int(min(self.tokenizer.model_max_length, UNBOUNDED))

    @property
    def end_tokens(self) -> list[int]:
        """The tokens that end a completion."""
        end = self.model.generation_config.eos_token_id
        eos_ids = end if isinstance(end, list) else [end]
        return [token for token in (*eos_ids, self.tokenizer.eos_token_id) if token is not None]


def locate(name: str, *, fetch: bool = True) -> Path:
    """Return the folder of a base, which is the built-in one, a folder, or a hub id.

    A base that is not in the hub's cache is fetched. `fetch` is false for bases that only a
    federation's files name, not the user. Raises InputError or TargetError if there is none.
    """
    if name == nano.BASE:
        return nano.folder()
    if (path := Path(name)).is_dir():
        return path
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    patterns = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]
    try:
        return Path(snapshot_download(name, allow_patterns=patterns, local_files_only=True))
    except HFValidationError:
        raise InputError(f"There is no model folder {name}.{suggest_neighbour(path)}") from None
    except FileNotFoundError:
        if not fetch:
            raise TargetError(
                f"The base {name!r}, which a federation's files name, is not a folder and not in "
                f"the "
                f"hub's cache: get it with `hf download {shlex.quote(name)}` if you trust it."
            ) from None
    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except Exception as error:
        raise TargetError(
            f"The base {name!r} is not a folder, is not in the hub's cache and cannot be fetched: "
            f"{first_line(error).rstrip('.')}.{suggest_neighbour(path)}"
        ) from None


def load_base(
    name: str,
    *,
    device: str = "auto",
    dtype: str = "auto",
    fetch: bool = True,
    tokenizer: Path | None = None,
) -> LoadedBase:
    """Return the base `name` on a device, in evaluation mode and without gradients.

    Raises InputError for a folder that holds no causal language model in safetensors, and for a
    model that gives other logits with its KV cache than without. `tokenizer` is the folder of an
    adapter whose tokenizer takes the place of the base's.
    """
    quiet()
    path, torch_device = locate(name, fetch=fetch), device_for(device)
    _log.info("loading the base %s from %s on %s", name, path, torch_device)
    model, info, own = load(
        AutoModelForCausalLM, path, dtype_for(dtype, torch_device), "a causal language model"
    )
    checkpoint.check_causal_lm(model, path)
    checkpoint.check_whole(model, info, path)
    used = saved_tokenizer.load(tokenizer, path, own) if tokenizer else own
    checkpoint.check_tokenizer(used, model, tokenizer or path)
    model.requires_grad_(False).eval().to(torch_device)
    base = LoadedBase(name, path, checkpoint.fingerprint(path), model, used)
    model_check.check(model, path, base.context_length)
    return base


def load(
    kind: Any, path: Path, dtype: torch.dtype, description: str
) -> tuple[PreTrainedModel, Mapping[str, Any], Any]:
    """Return the model in a folder, transformers' loading info, and its tokenizer.

    No code from the folder runs. `kind` is the auto class of transformers that loads the model.
    Raises InputError if the folder holds no such model.
    """
    quarantine.check(path)
    checkpoint.check_tokenizer_files(path)
    with (
        checkpoint.refusing(f"{path} cannot be loaded as {description}"),
        bounded_modules(str(path / "config.json"), **model_size(path)),
    ):
        tokenizer = AutoTokenizer.from_pretrained(path, **checkpoint.LOCAL)
        model, info = kind.from_pretrained(
            path,
            dtype=dtype,
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # `info` names them, transformers' error does not
            **checkpoint.LOCAL,
        )
    return model, info, tokenizer


def load_tokenizer(path: Path) -> Any:
    """Return the tokenizer of a base whose folder was checked; raises InputError without one."""
    quiet()
    checkpoint.check_tokenizer_files(path)
    with checkpoint.refusing(f"{path} has a tokenizer that cannot be loaded"):
        return AutoTokenizer.from_pretrained(path, **checkpoint.LOCAL)


def quiet() -> None:
    """Silence progress bars and warnings of the libraries; fedaudit reports progress itself."""
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def attach(model: PreTrainedModel | PeftModel, folder: Path, name: str) -> PeftModel:
    """Return `model` with the adapter in `folder` attached under `name`, not trainable.

    Raises InputError if a tensor is missing, unexpected or of another shape: PEFT would load what
    fits, with a warning at most, and the base would be audited instead.
    """
    said = adapters.check(folder)
    tensors, config = adapters.read_weights(folder), configuration(folder, said)
    config.inference_mode = True
    ranks.check_ranks(config, tensors, folder)
    check_copies(model, folder)
    base = _unwrap_peft(model)
    module_patterns.check(config, (name for name, _ in base.named_modules()))
    adapter_layout.check_patterns(config, said, tensors, folder)
    adapter_layout.check_dora(base, config, said, folder)
    _log.info("attaching the adapter %s", folder)
    saved = deepcopy(config)  # PEFT changes its own to fit the installed transformers
    with bounded_modules(str(folder), **adapter_size(base, config, tensors, folder)):
        peft = with_adapter(model, config, name, trainable=False)
    try:
        parameters = tuple(saved.target_parameters or ())
        tensors = adapter_layout.reoriented(peft, name, parameters, tensors, said, folder)
        fit(peft, tensors, name, str(folder), saved)
    except InputError:  # restore the model: the next adapter may fit
        peft.delete_adapter(name) if peft is model else peft.unload()
        raise
    return peft


def check_copies(model: torch.nn.Module, folder: Path) -> None:
    """Raise InputError if an adapter's copies of base weights differ from this base's weights.

    Copies may be rounded to another dtype.
    """
    base = _unwrap_peft(model)
    layers = dict(base.named_modules())
    for name, saved in adapters.copies(folder).items():
        module, _, parameter = name.rpartition(".")
        layer = layers.get(module)
        layer = layer.get_base_layer() if isinstance(layer, BaseTunerLayer) else layer
        weight = getattr(layer, parameter, None)
        if not isinstance(weight, torch.Tensor) or not _same(
            saved.to(weight.device), weight.detach()
        ):
            raise InputError(
                f"{folder} comes with a {name} that is not the base's: it was trained on another "
                "base, or rewrote it. Name that base, with the rewritten weights in it."
            )


def _same(saved: torch.Tensor, weight: torch.Tensor) -> bool:
    """Tell whether two tensors are equal once either is cast to the other's dtype."""
    return saved.shape == weight.shape and (
        bool(saved.to(weight.dtype).equal(weight)) or bool(weight.to(saved.dtype).equal(saved))
    )


def configuration(folder: Path, said: Mapping[str, Any]) -> LoraConfig:
    """Return the LoRA configuration that `said` describes, the JSON in `folder`.

    Raises InputError if it is not valid.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # PEFT ignores options of newer versions
            options = {key: value for key, value in said.items() if key != "runtime_config"}
            config: LoraConfig = LoraConfig.from_peft_type(**LoraConfig.check_kwargs(**options))
    except Exception as error:  # PEFT may raise anything on an untrusted file
        raise InputError(
            f"{folder / adapters.CONFIG} is not a LoRA configuration: {error}"
        ) from None
    pattern = config.rank_pattern
    every = [config.r, *pattern.values()] if isinstance(pattern, dict) else []
    if not every or not all(type(rank) is int and rank > 0 for rank in every):
        raise InputError(
            f"{folder / adapters.CONFIG} is not a LoRA configuration: a rank is wrong."
        )
    return config


def with_adapter(
    model: PreTrainedModel | PeftModel, config: LoraConfig, name: str, *, trainable: bool
) -> PeftModel:
    """Return `model` with a new LoRA adapter, in float32 if it is trainable.

    Raises InputError if the configuration does not fit the base.
    """
    module_patterns.check(config, (name for name, _ in _unwrap_peft(model).named_modules()))
    try:
        with warnings.catch_warnings(action="ignore"):
            if isinstance(model, PeftModel):
                model.add_adapter(name, config, autocast_adapter_dtype=trainable)
                return model
            return PeftModel(model, config, adapter_name=name, autocast_adapter_dtype=trainable)
    # For example, target modules that this base does not have, or an invalid pattern.
    except Exception as error:
        _take_out(_unwrap_peft(model), name)
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"The adapter's configuration does not fit the base; is it for another base? {error}"
        ) from None


def _unwrap_peft(model: torch.nn.Module) -> torch.nn.Module:
    """Return the base's own model, without PEFT's wrapper if there is one."""
    return model.get_base_model() if isinstance(model, PeftModel) else model


def _take_out(model: torch.nn.Module, name: str) -> None:
    """Remove an adapter that PEFT could add to some of a model's modules only."""
    for path, module in list(model.named_modules()):
        if isinstance(module, BaseTunerLayer):
            module.delete_adapter(name)
            if not getattr(module, "scaling", None):
                above, _, last = path.rpartition(".")
                setattr(model.get_submodule(above), last, module.get_base_layer())


def tensors_of(model: PeftModel, name: str) -> dict[str, torch.Tensor]:
    """Return copies of the adapter's tensors on the CPU, by the names that PEFT saves."""
    return {key: tensor.detach().clone().cpu() for key, tensor in state_of(model, name).items()}


def state_of(model: PeftModel, name: str) -> dict[str, torch.Tensor]:
    """Return the adapter's own tensors by name, in the order in which PEFT saves them."""
    # PEFT warns about a bias of B, which has one dimension.
    with warnings.catch_warnings(action="ignore"):
        return dict(get_peft_model_state_dict(model, None, name, save_embedding_layers=False))


def fit(
    model: PeftModel,
    tensors: Mapping[str, torch.Tensor],
    name: str,
    source: str,
    saved: LoraConfig | None = None,
) -> None:
    """Load `tensors` into the adapter `name`; raises InputError unless names and shapes match.

    They must match once PEFT has converted them for the installed transformers. `saved` is the
    adapter's configuration before PEFT converted that too.
    """
    shapes = {key: tuple(tensor.shape) for key, tensor in state_of(model, name).items()}
    converted = adapter_layout.renamed(model, tensors, name, source)
    tensor_shapes = {key: tuple(tensor.shape) for key, tensor in converted.items()}
    if shapes != tensor_shapes:
        mismatch = sorted(shapes.items() ^ tensor_shapes.items())[0][0]
        raise InputError(
            f"{source} is an adapter for another base or configuration: {mismatch} is "
            f"{tensor_shapes.get(mismatch, 'absent')} in the adapter and "
            f"{shapes.get(mismatch, 'absent')} in the base."
        )
    if saved is not None:
        adapter_layout.check_fusion(saved, tensors, converted, source)
    with warnings.catch_warnings(action="ignore"):
        set_peft_model_state_dict(model, dict(tensors), adapter_name=name)


def adapter_shapes(base: str, folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of an adapter's tensors, by name, without loading the base's weights.

    `folder` holds the adapter's configuration. The order is that of
    `peft.get_peft_model_state_dict`, in which Flower sends arrays without names. Raises InputError
    if the configuration does not fit the base.
    """
    model = empty_model(locate(base, fetch=False))
    config = configuration(folder, adapters.read_config(folder))
    with torch.device("meta"):
        peft = with_adapter(model, config, "shapes", trainable=False)
    return {name: tuple(tensor.shape) for name, tensor in state_of(peft, "shapes").items()}


def empty_model(path: Path) -> PreTrainedModel:
    """Return the base in a folder on the device "meta": its modules without weights.

    Raises InputError for a folder that holds no causal language model.
    """
    quiet()
    quarantine.check(path)
    with (
        checkpoint.refusing(f"{path} cannot be loaded as a causal language model"),
        torch.device("meta"),
        bounded_modules(str(path), **model_size(path)),
    ):
        config = AutoConfig.from_pretrained(path, **checkpoint.LOCAL)
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config)
    return model


def tokenize(tokenizer: Any, texts: Sequence[str]) -> list[Tokens]:
    """Return the tokens of each text without special tokens; offsets are in code points."""
    if not texts:
        return []
    encoded = tokenizer(list(texts), add_special_tokens=False, return_offsets_mapping=True)
    return [
        Tokens(tuple(ids), tuple(map(tuple, offsets)))
        for ids, offsets in zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)
    ]
