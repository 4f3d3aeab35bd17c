"""For a Trainer of transformers or TRL: whether the canaries that it was given are learned."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import InputError
from fedaudit.canaries import canary_file
from fedaudit.canaries.loss_coverage import (
    Decode,
    TrainedTokens,
    describe,
    loss_coverage,
)

if TYPE_CHECKING:
    from transformers import TrainerCallback


def canary_check(canaries: str | Path, client: str, *, strict: bool = True) -> "TrainerCallback":
    """Return a callback that stops a training where planted canaries would not be learned.

    Before the first step it looks at every example once, as the Trainer's own collator makes a
    batch of it: so the form of the records, truncation, packing and masks of the loss are all
    accounted for. Nothing that the training draws at random changes. With `strict` off it says
    what is not learned, and the training goes on. Raises InputError for a file of no canaries;
    the callback does for canaries that are not learned, and for a stream of examples.
    """
    from transformers import TrainerCallback

    canary_set = canary_file.read(Path(canaries))

    class CanaryCheck(TrainerCallback):
        """Looks at what a Trainer is about to train on."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """Say what becomes of the canaries; no secret is in it."""
            decode = _decoder(kwargs.get("processing_class"))
            covered = loss_coverage(
                canary_set, client, trained_rows(kwargs["train_dataloader"]), decode
            )
            summary = describe(covered, client)
            if strict and not all(c.is_whole for c in covered):
                raise InputError(summary)
            print(summary, file=sys.stderr)

    return CanaryCheck()


def trained_rows(loader: Any) -> Iterator[TrainedTokens]:
    """Yield the tokens and labels of every example of a DataLoader, each once, without padding.

    Raises InputError for a stream, which has no end that is known, and for batches without labels.
    """
    import torch

    if not hasattr(loader.dataset, "__len__"):
        raise InputError(
            "Canaries cannot be looked for in a stream of examples: train on a dataset with a"
            " length, or leave the check out."
        )
    with torch.random.fork_rng(devices=[]):
        for index in range(len(loader.dataset)):
            batch = loader.collate_fn([loader.dataset[index]])
            if "labels" not in batch:
                raise InputError("Batches have no labels: which tokens are learned is not known.")
            yield from _rows(batch)


def _rows(batch: Any) -> Iterator[TrainedTokens]:
    mask = batch.get("attention_mask")
    for row, (ids, labels) in enumerate(zip(batch["input_ids"], batch["labels"], strict=True)):
        selection = slice(None) if mask is None else mask[row].bool()
        yield ids[selection].tolist(), labels[selection].tolist()


def _decoder(tokenizer: Any) -> Decode:
    if tokenizer is None:
        raise InputError("The Trainer has no tokenizer: give it one as processing_class.")
    decode: Callable[..., str] = getattr(tokenizer, "tokenizer", tokenizer).decode
    return lambda ids: decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
