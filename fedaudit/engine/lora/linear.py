"""LoRA's linear layers as one operation each, for training."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from peft.tuners.lora import Linear
from torch.autograd.function import once_differentiable

MASTER_WEIGHTS = (torch.bfloat16, {torch.float32})
"""The dtypes of a base and of its adapter in mixed precision (Micikevicius et al. 2018)."""


class LoraProduct(torch.autograd.Function):
    """x W^T + s (x A^T) B^T, with gradients for x, A and B (Hu et al. 2021, equation 3).

    x has shape (..., in), W (out, in), A (r, in), B (out, r). Plain autograd keeps and walks
    through eight intermediate results of a layer; this keeps x and x A^T, or W + s B A where that
    saves operations. Products have W's dtype, as under autocast, and gradients that of what they
    are for: an optimizer's small steps would be lost on A and B in bfloat16.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor,
        a: torch.Tensor,
        b: torch.Tensor,
        scaling: float,
    ) -> torch.Tensor:
        """Return the layer's output, shape (..., out)."""
        rows = x.reshape(-1, x.shape[-1])
        merges = _merges(len(rows), weight, a)
        ctx.dtype, a, b = a.dtype, a.to(weight.dtype), b.to(weight.dtype)
        if merges:
            weight, low = weight.addmm(b, a, alpha=scaling), None
            out = rows @ weight.T
        else:
            low = rows @ a.T
            out = (rows @ weight.T).addmm_(low, b.T, alpha=scaling)
        ctx.save_for_backward(rows, weight, a, b, low)
        ctx.scaling, ctx.shape, ctx.merges = scaling, x.shape, merges
        return out.view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Return the gradients of the loss for `forward`'s arguments; none for what is frozen."""
        rows, weight, a, b, low = ctx.saved_tensors
        out = gradients[0].reshape(-1, weight.shape[0])
        projected = out @ b
        for_x = None
        if ctx.needs_input_grad[0]:
            for_x = out @ weight
            if not ctx.merges:
                for_x.addmm_(projected, a, alpha=ctx.scaling)
            for_x = for_x.view(ctx.shape)
        for_a = (projected.T @ rows).mul_(ctx.scaling)
        for_b = (out.T @ (rows @ a.T if low is None else low)).mul_(ctx.scaling)
        return for_x, None, for_a.to(ctx.dtype), for_b.to(ctx.dtype), None


def _merges(tokens: int, weight: torch.Tensor, a: torch.Tensor) -> bool:
    """Return whether W + s B A is computed first, for products with it forwards and backwards.

    That saves r (in + out) multiplications a token and takes r in out, so it is done for twice the
    tokens at which it breaks even. In bfloat16, W would swallow the change.
    """
    out, width = weight.shape
    both_float32 = weight.dtype == a.dtype == torch.float32
    return both_float32 and tokens * (out + width) >= 2 * out * width


@contextmanager
def fused_lora(model: torch.nn.Module, adapter: str) -> Iterator[int]:
    """Let the model's plain LoRA layers compute `adapter` in one operation; give how many do.

    Others go on as PEFT has them: with dropout, DoRA and other variants, quantised bases, mixed
    dtypes other than a base in bfloat16 with an adapter in float32.
    """
    modules = (module for module in model.modules() if isinstance(module, Linear))
    layers = [layer for layer in modules if _is_plain(layer, adapter)]
    for layer in layers:
        layer.__dict__["forward"] = _forward(layer, adapter)
    try:
        yield len(layers)
    finally:
        for layer in layers:
            del layer.__dict__["forward"]


def _is_plain(layer: Linear, adapter: str) -> bool:
    """Return whether a layer is x W^T + b + s (x A^T) B^T and nothing else, in dtypes for that."""
    if type(layer) is not Linear or type(layer.base_layer) is not torch.nn.Linear:
        return False
    if layer.active_adapters != [adapter] or layer.merged or layer.disable_adapters:
        return False
    if adapter not in layer.lora_A or adapter in layer.lora_variant:
        return False
    a, b = layer.lora_A[adapter], layer.lora_B[adapter]
    dtype, adapter_dtypes = layer.base_layer.weight.dtype, {a.weight.dtype, b.weight.dtype}
    return (
        type(a) is type(b) is torch.nn.Linear
        and a.bias is b.bias is None
        and (adapter_dtypes == {dtype} or (dtype, adapter_dtypes) == MASTER_WEIGHTS)
        and isinstance(layer.lora_dropout[adapter], torch.nn.Identity)
    )


def _forward(layer: Linear, adapter: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a plain layer's forward, which looks its weights up in each call: they may move."""

    def forward(x: torch.Tensor) -> torch.Tensor:
        base: Any = layer.base_layer
        a, b = layer.lora_A[adapter], layer.lora_B[adapter]
        out: torch.Tensor = LoraProduct.apply(  # type: ignore[no-untyped-call]
            x, base.weight, a.weight, b.weight, layer.scaling[adapter]
        )
        return out if base.bias is None else out + base.bias

    return forward
