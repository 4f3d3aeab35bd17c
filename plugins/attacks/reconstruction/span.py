"""The row space of an update of LoRA's A, and whether an input lies in it up to rounding.

One step of plain SGD changes A by -lr * (B^T dY) X^T, so the rows of the change are combinations
of the layer's inputs X (DAGER, arXiv:2405.15586, section 4), and every input lies in their span as
long as A has more rows than there are inputs. What is stored is the change up to rounding.

With more inputs than rows the span is of no use, but the change is still a combination of a few of
the inputs that the vocabulary allows, and the only one of so few (Davies and Eldar, 2012).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

SLACK = 3.0
"""Standard deviations by which a norm may exceed its expectation: 1 in 700 does."""


ALIKE = 1e-4
"""The squared share of an input outside of others from which on it counts as one of its own."""


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

    @property
    def noise_floor(self) -> float:
        """The singular value up to which a direction may be rounding alone.

        The norm of a matrix of independent roundings (Davidson and Szarek, 2001).
        """
        width: int = self.directions.shape[1]
        return self.rounding * (math.sqrt(self.rows) + math.sqrt(width) + SLACK)

    @property
    def max_inputs(self) -> int:
        """How many inputs can be told from all others behind a change of this rank.

        A change of rank r is a combination of fewer than (width + r) / 2 of a set of inputs in at
        most one way, if no `width` of the set depend on each other (Davies and Eldar, IEEE
        Transactions on Information Theory 58(2), 2012, theorem 2).
        """
        return (self.directions.shape[1] + self.rank - 1) // 2

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
    its singular value is above the norm of a matrix of such numbers.
    """
    import torch

    old = torch.cat([one.double() for one in before])
    moved = torch.cat([one.double() for one in change])
    unit = max(torch.finfo(one.dtype).eps for one in before) / 2
    computed = torch.finfo(torch.float32).eps / 2
    rows = len(moved)
    stored = unit * float((old + moved).square().mean().sqrt()) * (roundings / 3) ** 0.5
    summed = computed * float(moved.square().mean().sqrt()) * rows**0.5
    rounding = (stored**2 + summed**2) ** 0.5
    _, sizes, directions = torch.linalg.svd(moved, full_matrices=False)
    # A module that did not change has no room for directions.
    moving = int((moved.norm(dim=1) > 0).sum())
    whole = UpdateSpan(directions, sizes, moving, rounding, computed * rows**0.5)
    kept = sizes > whole.noise_floor
    return replace(whole, directions=directions[kept], sizes=sizes[kept])


def recover_inputs(span: UpdateSpan, inputs: "torch.Tensor") -> list[int] | None:
    """Return which of `inputs` (n, width) the change is a combination of, up to rounding.

    None if it is not one of so few that no others could be behind it, as after an adaptive
    optimizer or with noise. Rank-aware order recursive matching pursuit (Davies and Eldar, 2012,
    algorithm 3): the input that lies closest to what is left of the change, outside of those
    already taken, is taken next.
    """
    import torch

    rest = span.sizes[:, None] * span.directions
    normed = torch.nn.functional.normalize(inputs.float(), dim=1)
    outside = torch.ones(len(normed))  # the squared norm of each input outside of those taken
    taken: list[int] = []
    basis = rest.new_zeros(0, rest.shape[1])
    while True:
        _, sizes, left = torch.linalg.svd(rest, full_matrices=False)
        left = left[sizes > span.noise_floor]
        if not len(left):
            return taken
        if len(taken) == span.max_inputs:
            return None
        nearness = (normed @ left.float().T).square().sum(dim=1) / outside
        nearness[outside < ALIKE] = 0
        taken.append(int(nearness.argmax()))
        new = inputs[taken[-1]].double()
        for _ in range(2):  # once more for what rounding leaves
            new = new - (new @ basis.T) @ basis
        new = new / new.norm()
        basis = torch.cat([basis, new[None]])
        rest = rest - torch.outer(rest @ new, new)
        outside = outside - (normed @ new.float()).square()
