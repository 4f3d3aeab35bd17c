"""What the test of a round costs a member, beside the training of that round.

    python benchmarks/watch_cost.py [--records 200] [--tested 200] [--held-out 100] [--epochs 3]
                                    [--canaries 12] [--trl]

The Trainer of transformers, or TRL's SFTTrainer, tunes the built-in model on one core, one record
at a time, as a client of a federation does in a round. The callback of `fedaudit.watch.trainer`
tests the same model, and so does the mod of `fedaudit.flower`, which gets its adapter as a message,
by a random part of the records. Times are processor times, without loading the model. The first
round reads the base as well.
"""

import argparse
import importlib
import json
import random
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from peft import LoraConfig, get_peft_model_state_dict
from transformers import Trainer, TrainingArguments

from fedaudit.canaries import canary_file
from fedaudit.canaries.generator import CanaryRequest, make
from fedaudit.engine.loading.loader import LoadedBase, load_base, with_adapter
from fedaudit.flower import watch_mod
from fedaudit.nano import generator
from fedaudit.watch.trainer import watch


class SentArray:
    """An array as Flower's messages hold it."""

    def __init__(self, tensor: torch.Tensor) -> None:
        """Keep a copy of a weight."""
        self._array = tensor.detach().numpy().copy()

    def numpy(self) -> Any:
        """Return the array."""
        return self._array


def tuned_model(base: LoadedBase) -> Any:
    """Return the base with an adapter that changes it a little."""
    config = LoraConfig(r=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    torch.manual_seed(0)
    model = with_adapter(base.model, config, "default", trainable=True)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.01)
    return model


def training_seconds(
    base: LoadedBase, model: Any, texts: Sequence[str], epochs: int, *, trl: bool
) -> float:
    """Return the processor time of a round."""
    rows = [base.tokenizer(text)["input_ids"] for text in texts]
    data: Any = [{"input_ids": row, "labels": row} for row in rows]
    arguments: Any = TrainingArguments
    trainer: Any = Trainer
    options: dict[str, Any] = {}
    if trl:
        sft: Any = importlib.import_module("trl")
        table: Any = importlib.import_module("datasets.table").InMemoryTable
        data = importlib.import_module("datasets").Dataset(
            table.from_pydict({"input_ids": rows}), fingerprint="records"
        )
        arguments, trainer = sft.SFTConfig, sft.SFTTrainer
        options = {"dataset_kwargs": {"skip_prepare_dataset": True}, "bf16": False}
    with tempfile.TemporaryDirectory() as folder:
        chosen = arguments(
            output_dir=folder, num_train_epochs=epochs, per_device_train_batch_size=1,
            report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True,
            logging_strategy="no", **options,
        )  # fmt: skip
        trainer = trainer(
            model=model, args=chosen, train_dataset=data, processing_class=base.tokenizer
        )
        began = time.process_time()
        trainer.train()
        return time.process_time() - began


def main(words: Sequence[str] | None = None) -> None:
    """Print the processor time of a round's training, and of its test."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200)
    parser.add_argument("--tested", type=int, default=200)
    parser.add_argument("--held-out", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--canaries", type=int, default=12)
    parser.add_argument("--trl", action="store_true")
    asked = parser.parse_args(words)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    count = asked.records + asked.held_out
    made = generator.corpus(
        cases=count, documents_per_case=2, seed=0, languages=["en"], domains=["legal"], kinds=3
    )
    texts = list(dict.fromkeys(document.text for document in made))[:count]
    random.Random(0).shuffle(texts)
    base = load_base("fedaudit-nano", device="cpu", dtype="float32")
    model = tuned_model(base)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        own = texts[: asked.records][: asked.tested]
        for name, part in (("ours", own), ("aside", texts[asked.records :])):
            lines = [json.dumps({"text": text}) + "\n" for text in part]
            (place / f"{name}.jsonl").write_text("".join(lines))
        canary_file.write(
            make(CanaryRequest(count=asked.canaries, controls=0, clients=("c0",), seed=1)),
            place / "canaries.json",
        )
        sent = {
            name: SentArray(tensor) for name, tensor in get_peft_model_state_dict(model).items()
        }
        message = SimpleNamespace(
            metadata=SimpleNamespace(message_type="train"),
            content=SimpleNamespace(array_records={"arrays": sent}),
        )
        tests = {}
        for name, canaries in (("records", None), ("canaries", place / "canaries.json")):
            files: dict[str, Any] = {
                "ours": place / "ours.jsonl", "held_out": place / "aside.jsonl",
                "canaries": canaries, "limit": 1.0,
            }  # fmt: skip
            callback: Any = watch(**files, out=place / name)
            mod: Any = watch_mod(
                **files, out=place / f"{name}-mod", lora=model, base="fedaudit-nano"
            )
            for which in ("first", "later"):
                began = time.process_time()
                one = SimpleNamespace(world_size=1)
                callback.on_train_begin(
                    one, None, None, model=model, processing_class=base.tokenizer
                )
                tests[name, which, "callback"] = time.process_time() - began
                began = time.process_time()
                mod(message, SimpleNamespace(node_config={"partition-id": 0}), lambda *_: None)
                tests[name, which, "mod"] = time.process_time() - began
    trained = training_seconds(base, model, texts[: asked.records], asked.epochs, trl=asked.trl)
    print(f"{len(own)} own and {len(texts) - asked.records} held-out records are tested")
    print(f"training on {asked.records} records, {asked.epochs} epochs: {trained:.1f} s")
    for (name, which, where), seconds in tests.items():
        beside = f" and {asked.canaries} canaries" if name == "canaries" else ""
        print(f"{where}, records{beside}, {which} round: {seconds:.1f} s ({seconds / trained:.0%})")


if __name__ == "__main__":
    main()
