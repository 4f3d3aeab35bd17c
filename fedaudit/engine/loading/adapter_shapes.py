"""A base's modules without its weights, and the shapes of an adapter's tensors on them."""

from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from fedaudit.api.errors import InputError
from fedaudit.engine.loading import checkpoint, loader, quarantine
from fedaudit.engine.loading.size_bounds import bounded_modules, model_size
from fedaudit.federation import adapters

Shape = tuple[int, ...]


def adapter_shapes(base: str, folder: Path) -> dict[str, Shape]:
    """Return the shapes of an adapter's tensors, by name, without loading the base's weights.

    `folder` holds the adapter's configuration. The order is that of
    `peft.get_peft_model_state_dict`, in which Flower sends arrays without names. Raises InputError
    if the configuration does not fit the base.
    """
    model = empty_model(loader.locate(base, fetch=False))
    config = loader.configuration(folder, adapters.read_config(folder))
    with torch.device("meta"):
        peft = loader.with_adapter(model, config, "shapes", trainable=False)
    return {name: tuple(tensor.shape) for name, tensor in loader.state_of(peft, "shapes").items()}


def empty_model(path: Path) -> PreTrainedModel:
    """Return the base in a folder on the device "meta": its modules without weights.

    Raises InputError for a folder that holds no causal language model.
    """
    loader.quiet()
    quarantine.check(path)
    try:
        with torch.device("meta"), bounded_modules(str(path), **model_size(path)):
            model_config = AutoConfig.from_pretrained(
                path, trust_remote_code=False, local_files_only=True
            )
            model: PreTrainedModel = AutoModelForCausalLM.from_config(model_config)
    except InputError:
        raise
    except BaseException as error:
        if not checkpoint.is_refusal(error):
            raise
        raise InputError(f"{path} cannot be loaded as a causal language model: {error}") from None
    return model
