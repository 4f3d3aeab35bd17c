"""Cross-entropy whose gradient is computed with it, in one buffer of the logits' size."""

from typing import Any

import torch
from torch.autograd.function import once_differentiable


def mean_cross_entropy(
    logits: torch.Tensor, tokens: torch.Tensor, counts: torch.Tensor
) -> torch.Tensor:
    """Return the mean of -ln softmax(logits)[token], in nats, with each token counted so often.

    Logits are (tokens, vocabulary), the others (tokens,); counts have the logits' dtype. NaN of no
    tokens.
    """
    total: torch.Tensor = WeightedCrossEntropy.apply(logits, tokens, counts)  # type: ignore[no-untyped-call]
    return total / counts.sum()


class WeightedCrossEntropy(torch.autograd.Function):
    """-sum_i w_i ln softmax(x_i)[t_i], in nats, with a gradient for x: w (softmax(x) - onehot(t)).

    x has shape (tokens, vocabulary), t and w (tokens,). Plain autograd keeps ln softmax(x) and
    fills two more buffers of that size in the backward pass.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: torch.Tensor, tokens: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        """Return the weighted sum, a scalar."""
        column = tokens[:, None]
        softmax = torch.softmax(logits, dim=1)
        # The largest softmax is at least 1 / vocabulary: its logarithm loses no precision.
        largest, scale = (each.amax(dim=1, keepdim=True) for each in (logits, softmax))
        losses = (largest - logits.gather(1, column)) - scale.log()
        softmax.scatter_add_(1, column, torch.full_like(losses, -1.0)).mul_(weights[:, None])
        ctx.save_for_backward(softmax)
        return (losses[:, 0] * weights).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Return the gradient for the logits alone; a second call raises RuntimeError."""
        (gradient,) = ctx.saved_tensors
        return gradient.mul_(gradients[0]), None, None
