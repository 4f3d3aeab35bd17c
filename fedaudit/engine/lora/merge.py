"""Adapters merged into a model's weights, W + s B A, which saves multiplications.

Merging pays if the adapter is large compared with its base, and needs a precise dtype: so only
small models in float32 on a CPU are run with merged weights. The base's own weights are kept.
"""

import re
from functools import cached_property, partial
from pathlib import Path

import torch
from peft.tuners.tuners_utils import check_target_module_exists
from transformers import PreTrainedModel

from fedaudit.api.errors import InputError
from fedaudit.engine.loading import module_patterns
from fedaudit.engine.lora import adapter as lora
from fedaudit.engine.lora.active import Version, version
from fedaudit.engine.lora.adapter import Weights

MAX_MERGED = 2
"""The maximum number of adapters whose merged weights are cached: the most recently used."""


SEEN_TOKENS = 16
"""The length of the text by which is found out which layers a model calls; a layer that it would
call for other texts alone, such as a rare expert, has its adapter beside the weights."""


class MergedWeights:
    """A cache of merged weights, by adapter, for a model that is run in this way."""

    def __init__(self, model: PreTrainedModel, *, small: bool) -> None:
        self._model = model
        self.possible = small and model.dtype == torch.float32
        self._known: dict[Version, Weights] = {}

    def merges(self, adapter: str) -> bool:
        """Tell whether an adapter can be merged into the weights."""
        return self.possible and self._plain(Path(adapter)) is not None

    def weights(self, adapter: str) -> Weights | None:
        """Return the layers' weights with an adapter merged in; None if it cannot be merged.

        Only plain LoRA for this base can be merged. Attaching the adapter reports what is wrong.
        """
        if not self.possible:
            return None
        key = version(adapter)
        weights = self._known.pop(key, None)
        if weights is None:
            plain = self._plain(Path(adapter))
            if plain is None:
                return None
            weights = lora.weights_with(self._model, plain)
        self._known[key] = weights
        for oldest in list(self._known)[:-MAX_MERGED]:
            del self._known[oldest]
        return weights

    def _plain(self, folder: Path) -> lora.LoraAdapter | None:
        """Return the adapter if it is plain LoRA on exactly the layers that it targets, or None."""
        try:
            adapter = lora.read(folder)
            if not isinstance(adapter.config.target_modules, str | list | set):
                return None
            layers = {name.replace(".base_layer", "") for name, _ in self._model.named_modules()}
            module_patterns.check(adapter.config, layers)
            target_modules = {
                name for name in layers if check_target_module_exists(adapter.config, name)
            }
            for name in adapter.pairs:
                lora.layer_of(self._model, adapter, name)
        except (InputError, re.error):
            return None
        if target_modules != set(adapter.pairs) or not self._called >= set(adapter.pairs):
            return None
        return adapter

    @cached_property
    def _called(self) -> set[str]:
        """The layers that are called when the model reads a text.

        Some models read a layer's weight themselves, as Jamba does that of `dt_proj`: there PEFT's
        adapter has no effect, and a merged one would have.
        """
        called: set[str] = set()

        def note(name: str, *_: object) -> None:
            called.add(name.replace(".base_layer", ""))

        hooks = [
            module.register_forward_pre_hook(partial(note, name))
            for name, module in self._model.named_modules()
        ]
        vocabulary = int(self._model.config.get_text_config().vocab_size)
        ids = torch.arange(SEEN_TOKENS, device=self._model.device) % vocabulary
        try:
            with torch.no_grad():
                self._model(input_ids=ids[None], use_cache=False)
        finally:
            for hook in hooks:
                hook.remove()
        return called
