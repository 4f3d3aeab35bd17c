"""Floating-point operations of a model, counted by torch while the model runs.

torch.utils.flop_counter counts matrix products, attention's among them, and convolutions, at two
operations a multiply-add. It leaves out what is elementwise (norms, activations, softmax, dropout,
the optimizer), embedding look-ups, and every kernel that it has no formula for, such as the
grouped products of a mixture of experts.

Attention runs unfused while it is counted. The counter has no formula for the fused kernel of a
CPU and would take it for free, and those of a GPU compute some products again in the backward
pass: one training would have another number on every machine.
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

    A row's matrices cost `linear` a token and its attention `square` a pair of tokens; `once` is
    computed for all rows together, as some models do the angles of their positions; `head` is what
    the logits of one learned token cost.
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

    These are of rows of `width`, at least 2, and twice `width` tokens; a batch of 3 rows of four
    times `width` tests it. None where it does not give exactly that count.
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
    something in the model is trainable. Activations that the model computes again (checkpointing)
    count again. No gradient is left, random numbers and modes are as before. Unfused attention
    needs memory for (rows, heads, width, width) in every layer.
    """
    with _counting(model, training=True) as counter:
        try:
            torch.autograd.backward(mean_loss(model, inputs))
        finally:
            model.zero_grad(set_to_none=True)
    return int(counter.get_total_flops())


def forward_flops(model: torch.nn.Module, inputs: Mapping[str, torch.Tensor]) -> int:
    """Return the FLOPs of one forward pass without gradients: products and convolutions only.

    `inputs` are (rows, width), on the model's device, as scoring or a fusion's objective gives
    them; every position's logits are computed. Random numbers and modes are as before.
    """
    with torch.no_grad(), _counting(model, training=False) as counter:
        model(**inputs)
    return int(counter.get_total_flops())


@contextmanager
def _counting(model: torch.nn.Module, *, training: bool) -> Iterator[FlopCounterMode]:
    """Count what runs inside, with the model in training mode or out of it."""
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
