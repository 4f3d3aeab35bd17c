"""For a Trainer of transformers or TRL: a member's test of the model that it is given to train.

from fedaudit.watch.trainer import watch
trainer.add_callback(watch(ours="ours.jsonl", held_out="set_aside.jsonl", out="watch/"))
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.records import Target
from fedaudit.watch.member import LiveModel, MemberWatch, WatchSettings

if TYPE_CHECKING:
    from transformers import TrainerCallback


def watch(
    *,
    ours: str | Path,
    held_out: str | Path,
    out: str | Path,
    canaries: str | Path | None = None,
    **options: Any,
) -> "TrainerCallback":
    """Return a callback that tests the global model before the first step of every round.

    The report in `out` has all rounds so far. `options` are `limit`, `references` and `template`.
    The callback raises LimitPassed, before anything is trained, if more than the limit was surely
    learnt; InputError for files that cannot be used, UsageError for a model that is not PEFT's and
    for a training of several processes.
    """
    from transformers import TrainerCallback

    settings = WatchSettings(
        ours=Path(ours),
        held_out=Path(held_out),
        out=Path(out),
        canaries=Path(canaries) if canaries else None,
        **options,
    )
    member = MemberWatch(settings)

    class WatchRounds(TrainerCallback):
        """Tests the model that a Trainer begins with."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """Test the model; no record is in what is said.

            Raises UsageError in a training of several processes: each may hold a part of the
            weights only, and if one of them stopped the others would wait for it.
            """
            if args.world_size > 1:
                raise UsageError(
                    f"This training has {args.world_size} processes: watch tests a model in one. "
                    "Record the rounds and run fedaudit watch before each training."
                )
            tokenizer = kwargs.get("processing_class")
            if tokenizer is None:
                raise InputError("The Trainer has no tokenizer: give it one as processing_class.")
            model = kwargs["model"]
            engine = LiveModel(model, getattr(tokenizer, "tokenizer", tokenizer))
            tuned, base = (
                Target(name="round", adapter="the adapter in training"),
                Target(name="base"),
            )
            said = member.test(engine, tuned, base, engine.name, str(model.device))
            print(said, file=sys.stderr)

    return WatchRounds()
