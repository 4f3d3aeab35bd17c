"""FLoRA (Wang et al., 2024): adapters are stacked, merged into the base, and begun afresh."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedaudit.api import Aggregator, InputError, Update

if TYPE_CHECKING:
    import torch

A, B = ".lora_A.weight", ".lora_B.weight"
ROUNDING = 1e-6
"""Singular values below this share of the largest are rounding."""


@dataclass(frozen=True)
class FLoRA(Aggregator):
    """Stack the clients' adapters, so that their products are summed, and merge the sum.

    A = [p1 A1; p2 A2; ...] and B = [B1, B2, ...] give B A = sum_k p_k B_k A_k without the cross
    terms that averaging A and B separately adds. Each round starts from the initial adapter on the
    merged base. The merged sums are kept as one adapter of the original base: the stack of all
    rounds, or a factorisation of the same product once a stack would have more rows than that.

    An update is the product B_k A_k itself: secure aggregation gives only sums, and FLoRA can merge
    only a sum of products.
    """

    name: ClassVar[str] = "flora"
    paper: ClassVar[str] = "Wang et al. 2024, arXiv:2409.05976"
    merges_each_round: ClassVar[bool] = True

    def aggregate(
        self, start: Update, updates: Sequence[Update], weights: Sequence[float]
    ) -> Update:
        """Return what is merged so far with sum_k (n_k / n) B_k A_k added, stacked or factored."""
        import torch

        total, result = float(sum(weights)), dict[str, torch.Tensor]()
        for module, a, b in _pairs(start):
            factors = [(a, b)] if bool(b.any()) else []  # the initial adapter changes nothing
            for update, weight in zip(updates, weights, strict=True):
                factors.append((update[module + A] * (weight / total), update[module + B]))
            stacked_a = torch.cat([x.float() for x, _ in factors])
            stacked_b = torch.cat([x.float() for _, x in factors], dim=1)
            if stacked_a.shape[0] > min(stacked_a.shape[1], stacked_b.shape[0]):
                stacked_a, stacked_b = factorize(stacked_b.double() @ stacked_a.double())
            result |= {module + A: stacked_a, module + B: stacked_b}
        return _of_one_rank(result)

    def difference(self, start: Update, trained: Update) -> Update:
        """Return B_k A_k by module, (out, in); the round began with a product of zero."""
        return {module: b.float() @ a.float() for module, a, b in _pairs(trained)}

    def moved(self, start: Update, update: Update) -> Update:
        """Return the adapter whose product is that of `start` plus `update`."""
        result: dict[str, torch.Tensor] = {}
        for module, a, b in _pairs(start):
            moved_a, moved_b = factorize(b.double() @ a.double() + update[module].double())
            result |= {module + A: moved_a, module + B: moved_b}
        return _of_one_rank(result)


def factorize(product: "torch.Tensor") -> tuple["torch.Tensor", "torch.Tensor"]:
    """Return A (r, in) and B (out, r), float32, of the least r with B A = product to rounding."""
    import torch

    left, values, right = torch.linalg.svd(product.double(), full_matrices=False)
    rank = max(1, int((values > values[0] * ROUNDING).sum()))
    root = values[:rank].sqrt()
    return (root[:, None] * right[:rank]).float(), (left[:, :rank] * root).float()


def _pairs(update: Update) -> Iterator[tuple[str, "torch.Tensor", "torch.Tensor"]]:
    """Yield (module, A, B); raises InputError for a tensor that is neither."""
    if odd := [name for name in update if not name.endswith((A, B))]:
        raise InputError(f"flora sums products B A, and {odd[0]} is in none of them.")
    for name, tensor in update.items():
        if name.endswith(A):
            module = name.removesuffix(A)
            yield module, tensor, update[module + B]


def _of_one_rank(update: Mapping[str, "torch.Tensor"]) -> Update:
    """Return the adapter with zeros behind the shorter factors, so that every module's rank is one.

    A rank of each module's own would need a pattern in the adapter's configuration.
    """
    import torch

    rank = max(a.shape[0] for _, a, _ in _pairs(update))
    result = dict[str, torch.Tensor]()
    for module, a, b in _pairs(update):
        short = rank - a.shape[0]
        result[module + A] = torch.nn.functional.pad(a, (0, 0, 0, short))
        result[module + B] = torch.nn.functional.pad(b, (0, short))
    return result
