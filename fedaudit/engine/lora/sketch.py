"""Sketches of LoRA updates: random projections that keep the cosine between two updates."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch

from fedaudit.engine.lora import adapter as lora

PROBES = 8
"""Random vectors on either side of a module's update: its sketch has PROBES**2 numbers."""


def sketch_update(folder: Path, start: Path) -> torch.Tensor:
    """Return a sketch of what training changed: s B A of `folder` less that of `start`.

    For each module, in the order of names, it is L (s B A - s' B' A') R with Gaussian matrices L
    (PROBES, out) and R (in, PROBES) that depend on the module's name and shape alone. The shape is
    (modules * PROBES**2,), in float64. Inner products of sketches estimate those of the updates
    whatever factors B and A the products have (Johnson and Lindenstrauss, 1984). Raises InputError
    for an adapter that is not plain LoRA.
    """
    after, before = (_products(lora.read(path)) for path in (folder, start))
    zero = torch.zeros(PROBES, PROBES, dtype=torch.float64)
    modules = sorted(after.keys() | before.keys())
    changes = [after.get(module, zero) - before.get(module, zero) for module in modules]
    return torch.stack(changes).flatten()


def cosines(sketches: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Return the cosine of each pair of sketches, shape (sketches, sketches); 0 beside a zero."""
    rows = torch.stack(list(sketches.values()))
    unit = rows / rows.norm(dim=1, keepdim=True).clamp_min(torch.finfo(rows.dtype).tiny)
    return torch.mm(unit, unit.T)


def _products(adapter: lora.LoraAdapter) -> dict[str, torch.Tensor]:
    """Return the sketch of s B A by module, each of shape (PROBES, PROBES)."""
    products = {}
    for module, (a, b) in adapter.pairs.items():
        left = _probes(f"{module} left", b.shape[0])
        right = _probes(f"{module} right", a.shape[1])
        product = (left.T @ b.double()) @ (a.double() @ right)
        products[module] = adapter.scales[module] * product
    return products


def _probes(name: str, width: int) -> torch.Tensor:
    """Return Gaussian vectors as columns, shape (width, PROBES), that follow from the name."""
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(width, PROBES, generator=generator, dtype=torch.float64)
