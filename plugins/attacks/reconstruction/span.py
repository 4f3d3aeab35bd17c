"""The row space of an update of LoRA's A, and whether an input lies in it up to rounding.

One step of plain SGD changes A by -lr * (B^T dY) X^T, so the rows of the change are combinations
of the layer's inputs X (DAGER, arXiv:2405.15586, section 4), and every input lies in their span as
long as A has more rows than there are inputs. What is stored is the change up to rounding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

SLACK = 3.0
"""Standard deviations by which a norm may exceed its expectation: 1 in 700 does."""


@dataclass(frozen=True, slots=True)
class UpdateSpan:
    """The row space of stacked changes of A, float64."""

    directions: "torch.Tensor"
    """(rank, width) Orthonormal rows."""
    sizes: "torch.Tensor"
    """(rank,) The singular values of the directions."""
    rows: int
    """How many rows the changes have together."""
    rounding: float
    """The root mean square of what an entry of the changes has in rounding."""
    unit: float
    """The unit roundoff of the type that inputs are computed in."""

    @property
    def rank(self) -> int:
        """How many directions are above rounding."""
        return len(self.sizes)

    @property
    def is_full(self) -> bool:
        """Whether more inputs may be behind the change than it has directions to show."""
        return self.rank >= min(self.rows, self.directions.shape[1])

    def contains(self, inputs: "torch.Tensor") -> "torch.Tensor":
        """Tell for each of `inputs` (n, width) whether it lies in the space but for rounding.

        An input x is w times the true change; of the stored one it is off by w times the rounding,
        which in the width - rank directions outside has a norm of about
        rounding * |w| * sqrt(width - rank). The least such w is that of the pseudo-inverse.
        """
        import torch

        x = inputs.double()
        along = x @ self.directions.T
        outside = x - along @ self.directions
        weights = (along / self.sizes).norm(dim=1)
        free = max(0, x.shape[1] - self.rank) ** 0.5 + SLACK
        allowed = torch.hypot(self.rounding * weights, self.unit * x.norm(dim=1)) * free
        inside: torch.Tensor = outside.norm(dim=1) <= allowed
        return inside


def update_span(
    before: Sequence["torch.Tensor"], change: Sequence["torch.Tensor"], roundings: float = 1.0
) -> UpdateSpan:
    """Return the span of the changes of some A, each (rank, width), of layers that read the same.

    `before` has what each A was. Rounding has two parts, both independent from entry to entry: that
    of the stored A behind an entry of the change, `roundings` times half a unit in the last place,
    and that of the products that were summed up, as often as there are rows. A direction counts if
    its singular value is above the norm of a matrix of such numbers (Davidson and Szarek, 2001).
    """
    import torch

    old = torch.cat([one.double() for one in before])
    moved = torch.cat([one.double() for one in change])
    unit = max(torch.finfo(one.dtype).eps for one in before) / 2
    computed = torch.finfo(torch.float32).eps / 2
    rows, width = moved.shape
    stored = unit * float((old + moved).square().mean().sqrt()) * (roundings / 3) ** 0.5
    summed = computed * float(moved.square().mean().sqrt()) * rows**0.5
    rounding = (stored**2 + summed**2) ** 0.5
    _, sizes, directions = torch.linalg.svd(moved, full_matrices=False)
    kept = sizes > rounding * (rows**0.5 + width**0.5 + SLACK)
    # A module that did not change has no room for directions.
    moving = int((moved.norm(dim=1) > 0).sum())
    return UpdateSpan(directions[kept], sizes[kept], moving, rounding, computed * rows**0.5)
