"""Whether a run's global adapters go on from round to round, or begin anew.

Training moves an adapter little by little: A and B of neighbouring rounds point in much the same
direction. Where a round's adapter is merged into the base and a new one is drawn (ReLoRA, FLoRA),
both are as good as orthogonal, to about the root of the number of their elements.
"""

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from fedaudit.federation import adapters
from fedaudit.federation.folder import name_rounds

UNRELATED = 0.1
"""The largest cosine, of all A and of all B, at which two adapters have nothing in common."""


def restart_notes(folders: Mapping[int, Path]) -> Iterator[str]:
    """Yield a note on the rounds whose adapter shares nothing with the one before.

    `folders` has the checked global adapters by round. Adapters of other names or shapes, as of
    other ranks, are not compared.
    """
    restarted = [
        later
        for (earlier, before), (later, after) in pairwise(sorted(folders.items()))
        if (cosines := part_cosines(before, after)) and max(map(abs, cosines)) <= UNRELATED
    ]
    if restarted:
        first = min(folders)
        yield (
            f"In {name_rounds(restarted)} the global adapter shares nothing with the one before: "
            "training began anew. If each round was merged into the base before the next (ReLoRA, "
            "FLoRA), later adapters belong to a base of their own: only the answers of round "
            f"{first} are the federation's."
        )


def part_cosines(before: Path, after: Path) -> tuple[float, float] | None:
    """Return the cosine of all A of two adapters and that of all B.

    None where names or shapes differ, or where a part of one is zero.
    """
    from safetensors import safe_open

    products = {"A": [0.0, 0.0, 0.0], "B": [0.0, 0.0, 0.0]}
    with (
        safe_open(before / adapters.WEIGHTS, "pt") as one,
        safe_open(after / adapters.WEIGHTS, "pt") as other,
    ):
        names = [{adapters.canonical(key): key for key in file.keys()} for file in (one, other)]  # noqa: SIM118
        if names[0].keys() != names[1].keys():
            return None
        for name in names[0]:
            part = "A" if "lora_A" in name else "B"
            x, y = (
                file.get_tensor(table[name]).double().flatten()
                for file, table in zip((one, other), names, strict=True)
            )
            if x.shape != y.shape:
                return None
            for index, product in enumerate((x @ y, x @ x, y @ y)):
                products[part][index] += float(product)
    if any(xx == 0 or yy == 0 for _, xx, yy in products.values()):
        return None
    a, b = (xy / math.sqrt(xx * yy) for xy, xx, yy in products.values())
    return a, b
