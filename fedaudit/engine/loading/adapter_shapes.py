"""The tensors that an adapter of a configuration has on a base, in PEFT's order."""

from pathlib import Path

import torch
from peft import get_peft_model_state_dict
from transformers import AutoConfig, AutoModelForCausalLM

from fedaudit.api.errors import InputError
from fedaudit.engine.loading import checkpoint, loader, quarantine
from fedaudit.engine.loading.size_bounds import bounded_modules, model_size

Shape = tuple[int, ...]


def adapter_shapes(base: str, folder: Path) -> dict[str, Shape]:
    """Return the shape of each tensor of an adapter, by its name, without the base's weights.

    `folder` has its configuration. The order is that of `peft.get_peft_model_state_dict`, in which
    Flower sends arrays without names. Raises InputError where the configuration does not fit.
    """
    loader.quiet()
    path = loader.locate(base, fetch=False)
    quarantine.check(path)
    config = loader.configuration(folder)
    try:
        with torch.device("meta"), bounded_modules(str(path), **model_size(path)):
            model_config = AutoConfig.from_pretrained(
                path, trust_remote_code=False, local_files_only=True
            )
            model = AutoModelForCausalLM.from_config(model_config)
    except InputError:
        raise
    except BaseException as error:
        if not checkpoint.is_refusal(error):
            raise
        raise InputError(f"{path} cannot be loaded as a causal language model: {error}") from None
    with torch.device("meta"):
        peft = loader.with_adapter(model, config, "shapes", trainable=False)
    tensors = get_peft_model_state_dict(peft, adapter_name="shapes", save_embedding_layers=False)
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}
