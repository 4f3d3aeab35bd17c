"""Floating-point operations of a model, counted by torch while the model runs.

torch.utils.flop_counter counts matrix products, attention's among them, and convolutions, at two
operations a multiply-add. It leaves out elementwise operations (norms, activations, softmax,
dropout, the optimizer), embedding look-ups, and every kernel for which it has no formula, such as
the grouped products of a mixture of experts.

Attention runs unfused while operations are counted. The counter has no formula for the fused
kernel of a CPU and would count it as free, and the fused kernels of a GPU compute some products
again in the backward pass: the same training would have a different count on each machine.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from fedaudit.engine.training.loss import mean_loss


@dataclass(frozen=True, slots=True)
class FlopsFormula:
    """FLOPs: rows * (linear * width + square * width**2) + once * width + head * learned.

    `linear` is the cost of the weight matrices per token, `square` that of attention per pair of
    tokens, and `head` that of the logits per learned token. `once` is the cost per position of what
    is computed once for all rows, as rotary angles are in some models.
    """

    linear: Fraction
    square: Fraction
    once: Fraction
    head: Fraction

    def flops(self, rows: int, width: int, learned: int) -> int:
        """Return the FLOPs of `rows` sequences padded to `width`, with `learned` tokens."""
        row = self.linear * width + self.square * width**2
        return round(rows * row + self.once * width + self.head * learned)


def flops_formula(count: Callable[[int, int, int], int], width: int) -> FlopsFormula | None:
    """Return the formula that `count` (rows, width, learned) -> FLOPs follows, from four counts.

    The four counts are taken with rows of `width` (at least 2) and twice `width` tokens. A fifth,
    with 3 rows of four times `width`, tests the formula; None if they are not exactly equal.
    """
    single, longer, two = count(1, width, 1), count(1, 2 * width, 1), count(2, width, 1)
    head = count(1, 2 * width, 2) - longer
    row, single, longer = two - single, single - head, longer - head
    square = Fraction(longer - 2 * single, 2 * width**2)
    linear = Fraction(row, width) - square * width
    formula = FlopsFormula(linear, square, Fraction(single - row, width), Fraction(head))
    return formula if formula.flops(3, 4 * width, 5) == count(3, 4 * width, 5) else None


def training_flops(model: torch.nn.Module, inputs: Mapping[str, torch.Tensor]) -> int:
    """Return the FLOPs of one forward and backward pass of `mean_loss`: products, convolutions.

    `inputs` hold input_ids, attention_mask and labels, each (rows, width), on the model's device;
    the model must have a trainable parameter. Activations that are recomputed (checkpointing) count
    again. Gradients are cleared; the random state and training modes are restored. Unfused
    attention needs memory for (rows, heads, width, width) in every layer.
    """
    with _counting(model, training=True) as counter:
        try:
            torch.autograd.backward(mean_loss(model, inputs))
        finally:
            model.zero_grad(set_to_none=True)
    return int(counter.get_total_flops())


def forward_flops(model: torch.nn.Module, inputs: Mapping[str, torch.Tensor]) -> int:
    """Return the FLOPs of one forward pass without gradients: products and convolutions only.

    `inputs` are (rows, width), on the model's device, as scoring or a fusion's objective passes
    them; logits are computed at every position. The random state and training modes are restored.
    """
    with torch.no_grad(), _counting(model, training=False) as counter:
        model(**inputs)
    return int(counter.get_total_flops())


@contextmanager
def _counting(model: torch.nn.Module, *, training: bool) -> Iterator[FlopCounterMode]:
    """Count the operations that run in this context, with the model in training or eval mode."""
    device = next(model.parameters()).device
    device_type = "cuda" if device.type == "cpu" else device.type
    modes = {module: module.training for module in model.modules()}
    model.train(training)
    try:
        with (
            torch.random.fork_rng(
                [] if device.type == "cpu" else [device], device_type=device_type
            ),
            sdpa_kernel(SDPBackend.MATH),
            FlopCounterMode(display=False) as counter,
        ):
            yield counter
    finally:
        for module, mode in modes.items():
            module.training = mode
