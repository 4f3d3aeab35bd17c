"""LoRA adapters rewritten to a plain form that all versions of vLLM serve in the same way."""

from collections.abc import Collection
from pathlib import Path

import torch

from fedaudit.api.errors import InputError
from fedaudit.engine.lora import adapter as lora
from fedaudit.federation import adapters


def write_plain_adapter(
    folder: Path, out: Path, model: torch.nn.Module, modules: Collection[str]
) -> int:
    """Write the adapter in `folder` into `out` with one rank and scaling 1; return the rank.

    Per-module ranks and scalings, rank-stabilised scaling and selections by pattern are folded into
    the matrices, so that nothing depends on how vLLM reads them. `model` is the base, with or
    without its weights, and `modules` are the last parts of the names of layers that vLLM adapts.

    Raises InputError for an adapter that is not plain LoRA for this base, or that adapts other
    layers, which vLLM would silently ignore.
    """
    try:
        plain = lora.read(folder)
    except InputError as error:
        reason = str(error).replace("cannot be combined", "cannot be served by vLLM")
        raise InputError(f"{reason} Use --engine local.") from None
    if adapters.copies(folder):
        raise InputError(
            f"{folder} brings layers of its own beside LoRA, which vLLM does not serve: use "
            "--engine local."
        )
    rank = max(a.shape[0] for a, _ in plain.pairs.values())
    tensors: dict[str, torch.Tensor] = {}
    for name, (a, b) in plain.pairs.items():
        if name.rpartition(".")[2] not in modules:
            raise InputError(f"{folder} adapts {name}, which vLLM does not: use --engine local.")
        lora.layer_of(model, plain, name)
        missing = rank - a.shape[0]
        scaled = (b.double() * plain.scales[name]).to(b.dtype)
        tensors[lora.ROOT + name + lora.A] = torch.nn.functional.pad(a, (0, 0, 0, missing))
        tensors[lora.ROOT + name + lora.B] = torch.nn.functional.pad(scaled, (0, missing))
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "",
        "r": rank,
        "lora_alpha": rank,
        "target_modules": sorted({name.rpartition(".")[2] for name in plain.pairs}),
        "bias": "none",
        "inference_mode": True,
    }
    adapters.write({name: t.contiguous() for name, t in tensors.items()}, config, out)
    return rank
