"""The gradient of each text's own loss with respect to an adapter, many texts at a time.

An adapter's A and B are linear layers, and the gradient of such a layer is, for each text, the sum
over its tokens of what the layer put out wanted changed times what it read. Both are at hand in one
backward pass of a whole batch (Goodfellow 2015, arXiv:1510.01799).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch
from peft import PeftModel
from peft.tuners.lora import LoraLayer

from fedaudit.api.errors import InputError
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Target
from fedaudit.engine.batching import by_length
from fedaudit.engine.local import LOGITS, LocalEngine
from fedaudit.engine.lora import adapter as lora
from fedaudit.engine.training.loss import summed_loss

TOKENS = 2048
"""The most tokens whose activations are kept for one backward pass."""

MAX_NUMBERS = 2**30
"""The most numbers that all gradients together have, 4 GB of them."""


def unit_gradients(
    engine: LocalEngine,
    target: Target,
    sequences: Sequence[Sequence[int]],
    progress: Progress = no_progress,
) -> torch.Tensor:
    """Return the direction of each sequence's gradient, float32 (sequences, numbers) on the CPU.

    Of its mean token loss, with respect to all A and B of the target's adapter, in the order of
    `flattened`, divided by its length: what clipping leaves of it. Raises InputError for a target
    without an adapter, or of more numbers than memory should hold, and for a sequence of one token.
    """
    if min(map(len, sequences)) < 2:
        raise InputError("A text of one token has no loss that could be derived.")
    if max(map(len, sequences)) > engine.context_length:
        raise InputError(f"A text is longer than the context of {engine.base.name}.")
    with engine.activate(target) as model, torch.enable_grad():
        layers = _linear_layers(engine)
        count = sum(layer.weight.numel() for layer in layers.values())
        if len(sequences) * count > MAX_NUMBERS:
            raise InputError(
                f"The gradients of {len(sequences):,} texts by {count:,} weights are too many to "
                "hold: plant fewer canaries, or train adapters of a lower rank."
            )
        found = torch.zeros(len(sequences), count)
        vocabulary = int(model.config.get_text_config().vocab_size)
        done = 0
        with _observed(layers) as gradients:
            for batch in by_length(list(map(len, sequences)), min(TOKENS, LOGITS // vocabulary)):
                torch.autograd.backward(summed_loss(model, [sequences[i] for i in batch]))
                found[batch] = torch.cat([one.flatten(1) for one in gradients()], dim=1).cpu()
                done += len(batch)
                progress(done, len(sequences))
    length: torch.Tensor = found.norm(dim=1, keepdim=True)
    return found.div_(length.clamp(min=torch.finfo(torch.float32).tiny))


def flattened(folder: Path) -> torch.Tensor:
    """Return all numbers of an adapter, float32, A before B, module by module in their order."""
    pairs = lora.read(folder).pairs
    tensors = [tensor for module in sorted(pairs) for tensor in pairs[module]]
    return torch.cat([tensor.float().flatten() for tensor in tensors])


def _linear_layers(engine: LocalEngine) -> dict[tuple[str, int], torch.nn.Linear]:
    """Return A (0) and B (1) of every module that the active adapter is on, in order."""
    model = engine.model
    active = str(model.active_adapter) if isinstance(model, PeftModel) else ""
    layers = {}
    for name, module in engine.base.model.named_modules():
        if isinstance(module, LoraLayer) and active in module.lora_A:
            for number, part in enumerate((module.lora_A[active], module.lora_B[active])):
                if not isinstance(part, torch.nn.Linear):
                    raise InputError(f"The adapter on {name} is not plain LoRA.")
                layers[name, number] = part
    if not layers:
        raise InputError("There is no adapter that a loss could be derived by.")
    return dict(sorted(layers.items()))


class _Observed:
    """What each layer last read, and what was wanted of what it put out."""

    def __init__(self, layers: Mapping[tuple[str, int], torch.nn.Linear]) -> None:
        self._order = list(layers.values())
        self._inputs: dict[torch.nn.Module, torch.Tensor] = {}
        self._wanted: dict[torch.nn.Module, torch.Tensor] = {}

    def forward(
        self, layer: torch.nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor
    ) -> None:
        """Note what a layer reads, and, once it is known, the gradient of what it puts out."""
        self._inputs[layer] = inputs[0].detach()
        output.register_hook(partial(self._wanted.__setitem__, layer))  # type: ignore[no-untyped-call]

    def __call__(self) -> list[torch.Tensor]:
        """Return each layer's gradients, (rows, out, in) in float32."""
        return [
            torch.einsum("bti,bto->boi", self._inputs[layer].float(), self._wanted[layer].float())
            for layer in self._order
        ]


@contextmanager
def _observed(layers: Mapping[tuple[str, int], torch.nn.Linear]) -> Iterator[_Observed]:
    """Watch layers, whose weights count as trainable meanwhile."""
    seen = _Observed(layers)
    before = {layer: layer.weight.requires_grad for layer in layers.values()}
    handles = [layer.register_forward_hook(seen.forward) for layer in before]
    try:
        for layer in before:
            layer.weight.requires_grad_(True)
        yield seen
    finally:
        for handle in handles:
            handle.remove()
        for layer, flag in before.items():
            layer.weight.grad = None
            layer.weight.requires_grad_(flag)
