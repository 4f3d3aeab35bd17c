"""Several targets that are asked the same: adapters side by side in a batch, or merged in turn."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.engine import batches, lora, mixed
from fedaudit.engine.samples import Drawing
from fedaudit.errors import InputError
from fedaudit.records import Target

if TYPE_CHECKING:
    from fedaudit.engine.local import LocalEngine

MANY = 32
"""Questions from which on small adapters are merged in turn: their rows fill a batch."""

Places = list[tuple[int, int]]
"""Target and question of each row."""

BASE = Target(name="base")


def answered(
    engine: "LocalEngine", targets: Sequence[Target], work: Drawing
) -> Iterator[tuple[Places, list[list[int]]]]:
    """Yield answers as tokens; raises InputError for an adapter that is not plain LoRA."""
    if engine.merging.possible and len(work.probes) >= MANY:
        for which, target in enumerate(targets):
            with engine.asked(target) as model:
                for pieces, tokens in batches.drawn(model, work, engine.room):
                    yield [(which, piece.index) for piece in pieces], tokens
        return
    loras = [lora.read(Path(t.adapter)) if t.adapter else None for t in targets]
    with engine.asked(BASE) as model:
        together = mixed.Adapters(model, loras)
        for pieces, tokens in batches.drawn_together(model, work, together, engine.room):
            yield [(which, p.index) for which in range(len(targets)) for p in pieces], tokens


def scored(
    engine: "LocalEngine", targets: Sequence[Target], sequences: Sequence[Sequence[int]]
) -> Iterator[tuple[Places, list[list[float]]]]:
    """Yield scores; an adapter that is not plain LoRA makes all targets be asked in turn."""
    adapters = None if engine.merging.possible else _side_by_side(engine, targets)
    if adapters is None or not targets:
        for which, target in enumerate(targets):
            with engine.asked(target) as model:
                for indices, scores in batches.scored(model, sequences, engine.reading):
                    yield [(which, index) for index in indices], scores
        return
    with engine.asked(BASE) as model:
        for indices, scores in batches.scored_together(model, sequences, adapters, engine.reading):
            yield [(which, index) for which in range(len(targets)) for index in indices], scores


def _side_by_side(engine: "LocalEngine", targets: Sequence[Target]) -> mixed.Adapters | None:
    try:
        loras = [lora.read(Path(t.adapter)) if t.adapter else None for t in targets]
        return mixed.Adapters(engine.base.model, loras)
    except InputError:
        return None  # asked for alone, it shows what is the matter with it
