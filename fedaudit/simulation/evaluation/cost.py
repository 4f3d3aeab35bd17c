"""What a federation cost: numbers trained, bytes sent, floating-point operations.

Nothing is timed, so the rows are the same on every machine, and a resumed federation costs what
one that never stopped does. Operations are those of LoRA on padded batches: what fedaudit saves,
by processing shared prefixes once and the like, another program may not.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fedaudit.api.records import Measurement
from fedaudit.federation import adapters
from fedaudit.simulation.client import trainer
from fedaudit.simulation.config import Training
from fedaudit.simulation.data.loss_mask import prompt_length

if TYPE_CHECKING:
    from peft import PeftModel

    from fedaudit.engine.flops import FlopsFormula

Stage = Literal["federated", "private"]
STAGES: tuple[Stage, ...] = ("federated", "private")
PROBE = 32
"""The maximum tokens of the narrowest batch counted; the widest has four times as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCost:
    """One client's training of one adapter in one round: the facts that determine its cost."""

    stage: Stage
    client: str
    round: int
    sequences: Sequence[Sequence[int]]
    training: Training
    seed: int
    """The seed with which the training drew its batches."""
    adapter: str = ""
    """Which of the client's private adapters; empty for the shared one."""
    messages: int = 1
    """Messages of an adapter's size each way: 2 where the rule of aggregation also exchanges a
    state."""


def costs(
    trainings: Sequence[TrainingCost], *, base: str, device: str, dtype: str, adapter: Path
) -> list[Measurement]:
    """Return the rows of all `trainings`: parameters, bytes_sent and flops.

    `adapter` is the folder of any adapter of the federation: all have one configuration. The base
    is used to count operations on a few short batches.
    """
    if not trainings:
        return []
    tensors = adapters.read(adapter).values()
    lora = json.dumps(adapters.check(adapter), sort_keys=True)
    longest = max((len(s) for job in trainings for s in job.sequences), default=0)
    # A power of 2, so that few widths are counted in a process.
    width = min(PROBE, 1 << max(1, (longest // 4).bit_length() - 1))
    sha256 = trainer.plain_base(base, device, dtype).sha256
    forms: dict[bool, FlopsFormula | None] = {}
    try:
        for checkpointing in sorted({job.training.checkpointing for job in trainings}):
            forms[checkpointing], frozen = _form_and_frozen(
                base, sha256, device, dtype, lora, checkpointing, width
            )
    finally:
        trainer.forget_model()
    return [
        *parameters(trainings, trainable=sum(t.numel() for t in tensors), frozen=frozen),
        *bytes_sent(trainings, size=sum(t.numel() * t.element_size() for t in tensors)),
        *flops(trainings, forms),
    ]


def parameters(
    trainings: Sequence[TrainingCost], *, trainable: int, frozen: int
) -> list[Measurement]:
    """Return how many parameters a client trains in each stage, and how many are frozen.

    `trainable` is the number in one adapter; for private adapters it is multiplied by their number.
    Clients with equally many private adapters share a row, whose scope counts both.
    """
    counts = Counter(
        c for c, _ in {(j.client, j.adapter) for j in trainings if j.stage == "private"}
    )
    rows = [_row("parameters", frozen, which="frozen")]
    if any(job.stage == "federated" for job in trainings):
        rows.append(_row("parameters", trainable, which="trainable", stage="federated"))
    for count, clients in sorted(Counter(counts.values()).items()):
        row = _row("parameters", count * trainable, which="trainable", stage="private")
        rows.append(replace(row, scope={**row.scope, "adapters": count, "clients": clients}))
    return rows


def bytes_sent(trainings: Sequence[TrainingCost], *, size: int) -> list[Measurement]:
    """Return the bytes sent up and down over all rounds and participants.

    `size` is that of an adapter's tensors, without what a file or a protocol adds. In each round a
    participant gets the global adapter and sends its own, and the state of a
    rule whose clients have one. Private adapters are not sent; fetching the base before the
    first round and the finished adapter after the last one is not counted.
    """
    shared = {
        (job.client, job.round): job.messages for job in trainings if job.stage == "federated"
    }
    per_round = size * max(shared.values(), default=1)
    return [
        _row(
            "bytes_sent",
            len(shared) * per_round,
            direction=direction,
            per_client_round=per_round,
            transfers=len(shared),
        )
        for direction in ("up", "down")
    ]


def flops(
    trainings: Sequence[TrainingCost], forms: Mapping[bool, "FlopsFormula | None"]
) -> list[Measurement]:
    """Return the operations of every stage; `forms` are what a batch costs, by checkpointing.

    Only ordinary training steps count; a defence that trains in another way may need more.
    """
    rows = []
    for stage in STAGES:
        jobs = [job for job in trainings if job.stage == stage]
        if any(forms[job.training.checkpointing] is None for job in jobs):
            reason = "the base's operations do not follow from the shape of a batch"
            rows.append(_row("flops", None, reason, stage=stage))
        elif jobs:
            known_forms = {flag: f for flag, f in forms.items() if f is not None}
            total = sum(operations(job, known_forms[job.training.checkpointing]) for job in jobs)
            rows.append(_row("flops", total, stage=stage))
    return rows


def tokens(job: TrainingCost) -> int:
    """Return the tokens of one training: those of the batches it really drew, without padding."""
    return sum(len(sequence) for batch in _batches(job) for sequence in batch)


def operations(job: TrainingCost, form: "FlopsFormula") -> int:
    """Return the FLOPs of one training: the sum over the batches that it really drew."""
    return sum(
        form.flops(len(batch), max(map(len, batch)), sum(map(_count_loss_tokens, batch)))
        for batch in _batches(job)
    )


def _count_loss_tokens(sequence: Sequence[int]) -> int:
    """Return how many tokens of a sequence count in the loss: nothing predicts the first."""
    return len(sequence) - min(len(sequence), max(1, prompt_length(sequence)))


def _batches(job: TrainingCost) -> Iterator[Sequence[Sequence[int]]]:
    """Yield the batches that a training drew."""
    if not job.sequences:
        return
    settings = job.training
    count = trainer.steps_of(settings, len(job.sequences)) * settings.accumulation
    yield from islice(trainer.draw_batches(job.sequences, settings.batch_size, job.seed), count)


def form(model: "PeftModel", width: int) -> "FlopsFormula | None":
    """Return what a batch of any shape costs to train, from batches of up to four times `width`.

    Returns None if the cost does not follow from the shape.
    """
    from fedaudit.engine.flops import flops_formula, training_flops
    from fedaudit.engine.training.loss import pad_batch

    def count(rows: int, width: int, learned: int) -> int:
        row = [token % model.config.vocab_size for token in range(width)]
        read = [width - learned, *[width] * (rows - 1)]
        return training_flops(model, pad_batch([row] * rows, read, model.device))

    return flops_formula(count, width)


@lru_cache(maxsize=64)
def _form_and_frozen(
    base: str,
    _sha256: str,
    device: str,
    dtype: str,
    lora: str,
    checkpointing: bool,
    width: int,
) -> tuple["FlopsFormula | None", int]:
    """Return `form` and the number of frozen parameters, counted once in a process.

    A base is the same while the hash of its files is.
    """
    model = trainer.cached_model(base, device, dtype, lora, checkpointing)
    frozen = sum(p.numel() for p in model.parameters() if not p.requires_grad)
    return form(model, width), frozen


def _row(metric: str, value: int | None, reason: str = "", **scope: object) -> Measurement:
    return Measurement(
        kind="cost", plugin="simulation", metric=metric, value=value, reason=reason, scope=scope
    )
