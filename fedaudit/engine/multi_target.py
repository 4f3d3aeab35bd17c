"""Several targets asked the same questions: adapters side by side in a batch, or in turn."""

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from transformers import PreTrainedModel

from fedaudit.api.errors import BatchTooLargeError, InputError
from fedaudit.api.records import Target
from fedaudit.engine import scheduler
from fedaudit.engine.generation.sequences import SamplingJob
from fedaudit.engine.lora import adapter, multi
from fedaudit.engine.lora.merge import MergedWeights
from fedaudit.engine.memory import free_memory, is_out_of_memory

MIN_MERGED_QUESTIONS = 32
"""From this many questions on, which fill a batch, adapters are merged in turn if possible."""

Places = list[tuple[int, int]]
"""The (target, question) indices of each row."""

BASE = Target(name="base")


class TargetEngine(Protocol):
    """What an engine must offer for one target, so that several targets can be asked."""

    room: scheduler.Capacity
    """How much goes through the model at once in generation."""
    merging: MergedWeights

    def apply_target(self, target: Target) -> AbstractContextManager[PreTrainedModel]:
        """Return a context in which the model answers as the target."""
        ...


def generate_for_targets(
    engine: TargetEngine, targets: Sequence[Target], job: SamplingJob
) -> Generator[tuple[Places, list[list[int]]], None, None]:
    """Yield answers as token ids.

    Adapters are asked in turn where merging them pays, and where one is more than products B A on
    layers of the base (DoRA, biases, embeddings, experts): PEFT then applies it.
    """
    in_turn = len(job.requests) >= MIN_MERGED_QUESTIONS and all(
        _merges(engine, target) for target in targets
    )
    if not in_turn:
        with engine.apply_target(BASE) as model:
            if (adapters := _side_by_side(model, targets)) is not None:
                for pieces, tokens in scheduler.generate_together(
                    model, job, adapters, engine.room
                ):
                    yield [(t, p.index) for t in range(len(targets)) for p in pieces], tokens
                return
    for target_index, target in enumerate(targets):
        with engine.apply_target(target) as model:
            for pieces, tokens in scheduler.generate_all(model, job, engine.room):
                yield [(target_index, piece.index) for piece in pieces], tokens


def _side_by_side(model: PreTrainedModel, targets: Sequence[Target]) -> multi.MultiLora | None:
    """Return the adapters of all targets; None if one is not plain LoRA on the base's own layers.

    Raises BatchTooLargeError if they do not fit together.
    """
    try:
        loras = [adapter.read(Path(t.adapter)) if t.adapter else None for t in targets]
        return multi.MultiLora(model, loras)
    except InputError:  # PEFT may convert it; what is wrong with it, attaching it says
        return None
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    free_memory()
    raise BatchTooLargeError(f"{len(targets)} adapters do not fit into memory together.")


def _merges(engine: TargetEngine, target: Target) -> bool:
    return engine.merging.possible and (
        target.adapter is None or engine.merging.merges(target.adapter)
    )
