"""Several targets asked the same questions: adapters side by side in a batch, or merged in turn."""

from collections.abc import Generator, Iterator, Sequence
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
from fedaudit.engine.scoring import log_likelihood

MIN_MERGED_QUESTIONS = 32
"""From this many questions on, which fill a batch, adapters are merged in turn if possible."""

Places = list[tuple[int, int]]
"""The (target, question) indices of each row."""

BASE = Target(name="base")


class TargetEngine(Protocol):
    """What an engine must offer for one target, so that several targets can be asked."""

    room: scheduler.Capacity
    """How much goes through the model at once in generation."""
    reading: scheduler.Capacity
    """How much goes through the model at once in scoring."""
    merging: MergedWeights

    def apply_target(self, target: Target) -> AbstractContextManager[PreTrainedModel]:
        """Return a context in which the model answers as the target."""
        ...


def generate_for_targets(
    engine: TargetEngine, targets: Sequence[Target], job: SamplingJob
) -> Generator[tuple[Places, list[list[int]]], None, None]:
    """Yield answers as token ids; raises InputError for an adapter that is not plain LoRA."""
    if len(job.requests) >= MIN_MERGED_QUESTIONS and all(
        _merges(engine, target) for target in targets
    ):
        for target_index, target in enumerate(targets):
            with engine.apply_target(target) as model:
                for pieces, tokens in scheduler.generate_all(model, job, engine.room):
                    yield [(target_index, piece.index) for piece in pieces], tokens
        return
    with engine.apply_target(BASE) as model:
        adapters = _side_by_side(model, targets)
        for pieces, tokens in scheduler.generate_together(model, job, adapters, engine.room):
            yield [(t, p.index) for t in range(len(targets)) for p in pieces], tokens


def score_for_targets(
    engine: TargetEngine, targets: Sequence[Target], sequences: Sequence[Sequence[int]]
) -> Generator[tuple[Places, list[list[float]]], None, None]:
    """Yield scores, of all targets in one batch where possible, else target by target.

    Targets are scored in turn if adapters can be merged, if one of the adapters is not plain LoRA,
    or if all of them together do not fit into memory.
    """
    scored_indices = set[int]()
    if targets and not engine.merging.possible:
        try:
            for indices, rows in _scored_together(engine, targets, sequences):
                scored_indices.update(indices)
                yield [(t, i) for t in range(len(targets)) for i in indices], rows
        except InputError:
            pass  # asking the targets one by one shows what is wrong
    remaining = [index for index in range(len(sequences)) if index not in scored_indices]
    for target_index, target in enumerate(targets if remaining else ()):
        with engine.apply_target(target) as model:
            remaining_sequences = [sequences[index] for index in remaining]
            for indices, rows in scheduler.score_all(
                model, remaining_sequences, engine.reading, log_likelihood.log_probabilities
            ):
                yield [(target_index, remaining[index]) for index in indices], rows


def _scored_together(
    engine: TargetEngine, targets: Sequence[Target], sequences: Sequence[Sequence[int]]
) -> Iterator[tuple[list[int], list[list[float]]]]:
    with engine.apply_target(BASE) as model:
        adapters = _side_by_side(model, targets)
        yield from scheduler.score_together(model, sequences, adapters, engine.reading)


def _side_by_side(model: PreTrainedModel, targets: Sequence[Target]) -> multi.MultiLora:
    """Return the adapters of all targets; BatchTooLargeError if they do not fit together."""
    loras = [adapter.read(Path(t.adapter)) if t.adapter else None for t in targets]
    try:
        return multi.MultiLora(model, loras)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    free_memory()
    raise BatchTooLargeError(f"{len(targets)} adapters do not fit into memory together.")


def _merges(engine: TargetEngine, target: Target) -> bool:
    return engine.merging.possible and (
        target.adapter is None or engine.merging.merges(target.adapter)
    )
