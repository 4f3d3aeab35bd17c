"""How many tokens a second a client's training learns, beside PEFT under transformers' Trainer.

    python benchmarks/training.py [--rank 16 64] [--learned text answer] [--steps 60] [--repeats 5]
        [--base fedaudit-nano | llama | FOLDER] [--bfloat16] [--compile] [--profile fed_pii ...]

The same base, first adapter, records of the built-in generator, steps, batch size, optimizer and
rates. The Trainer runs twice: on the very batches that fedaudit draws, where losses and adapters
must come out alike, and on batches as it draws them itself, of any lengths. Tokens are those that
a loss is over. Seconds are the processor's, of one thread.

The base `llama` has 110 million random weights. --bfloat16 has fedaudit's base in that dtype, which
a processor must have instructions for, and the Trainer a third time, under autocast (`bf16`).
--compile has torch compile the layers that fedaudit trains, which takes a C++ compiler.
--profile trains the first client of a profile's federation instead, on its own records.
"""

import argparse
import json
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import torch
from peft import PeftConfig
from probing import llama
from transformers import PrinterCallback, Trainer, TrainingArguments
from turns import in_turn, line

from fedaudit.api.records import Document
from fedaudit.config import profile, registry
from fedaudit.config.options import build
from fedaudit.engine.loading.loader import fit, load_base, quiet, tensors_of, with_adapter
from fedaudit.engine.training.loss import PrefixTree
from fedaudit.federation import adapters
from fedaudit.nano import BASE
from fedaudit.nano.generator import corpus
from fedaudit.simulation import initialization
from fedaudit.simulation.client import trainer
from fedaudit.simulation.client.trainer import ADAPTER, ClientTraining
from fedaudit.simulation.config import Simulation, Training
from fedaudit.simulation.data import datasets
from fedaudit.simulation.data.datasets import training_sequences
from fedaudit.simulation.data.loss_mask import prompt_length
from fedaudit.simulation.initialization import initial_adapter
from fedaudit.simulation.preparation import prepare

OURS, SAME, OWN = "fedaudit", "Trainer, the same batches", "Trainer, its own batches"
MIXED = "Trainer, the same batches, bfloat16"
LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True)
class Case:
    """What is trained: a job of ours, and the batches that it draws."""

    job: ClientTraining
    batches: list[list[Sequence[int]]]

    @property
    def tokens(self) -> int:
        """How many tokens the losses of those batches are over."""
        rows = (row for batch in self.batches for row in batch)
        return sum(len(row) - max(1, prompt_length(row)) for row in rows)

    @property
    def distinct(self) -> float:
        """The share of the padded batches' tokens that are distinct prefixes of their batch."""
        trees = [PrefixTree.from_sequences(batch, [0] * len(batch)) for batch in self.batches]
        padded = sum(len(batch) * max(map(len, batch)) for batch in self.batches)
        return sum(len(tree.tokens) for tree in trees) / padded


class InOrder(Trainer):
    """A Trainer that takes its examples in the order in which they stand."""

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        examples: Any = train_dataset or self.train_dataset
        return torch.utils.data.SequentialSampler(examples)


class InOrderMixed(InOrder):
    """What `bf16` makes of it, which a process can have for all Trainers or for none."""

    def compute_loss_context_manager(self) -> Any:
        """Return the context of a forward."""
        return torch.autocast("cpu", torch.bfloat16)


def case(given: argparse.Namespace, rank: int, learned: str, folder: Path) -> Case:
    """Write a first adapter and return the case of records that the options describe."""
    training = Training(
        steps=given.steps, batch_size=given.batch, learning_rate=1e-3, max_length=128, rank=rank,
        alpha=2 * rank, targets=LINEAR, learned="answer" if learned == "answer" else "text",
    )  # fmt: skip
    name = given.base if given.base != "llama" else random_llama(folder / "base")
    base = load_base(name, device="cpu", dtype="float32")
    initial_adapter(Simulation(base=name, training=training), base, folder / "start")
    records = corpus(cases=given.cases, documents_per_case=8, seed=1, languages=("en",))
    documents: list[Document] = list(records)
    if learned == "answer":
        documents = [one for one in documents if one.instruction and one.output]
    sequences = training_sequences(training, base, documents)
    return of_client(training, name, folder / "start", sequences)


def profile_case(given: argparse.Namespace, name: str, folder: Path) -> Case:
    """Create a profile's federation and return the case of its first client's first round."""
    config = build(Simulation, profile.load(name).settings("nano"), name)
    training = replace(
        config.training, steps=given.steps, accumulation=1, decay="linear", warmup=0,
        weight_decay=0.0, dropout=0.0,
    )  # fmt: skip
    run = prepare(replace(config, training=training), folder / "federation")
    base = load_base(config.base, device="cpu", dtype="float32")
    clients = initialization.create(run.config, run.out, base, run.aggregator).clients
    documents = datasets.client_documents(run.config, run.out, clients, run.defenses)
    sequences = datasets.tokenize_clients(run.config, base, documents).shared[clients[0].id]
    return of_client(training, config.base, run.out / initialization.INITIAL, sequences)


def of_client(
    training: Training, base: str, start: Path, sequences: Sequence[Sequence[int]]
) -> Case:
    """Return the case of a client that trains on these sequences."""
    job = ClientTraining(
        model_name="c1", base=base, start=start, out=start.parent / "ours",
        sequences=sequences, training=training, round=1, rounds=1, seed=3,
        aggregator=registry.create("aggregation", "fedavg"), device="cpu", dtype="float32",
        threads=1,
    )  # fmt: skip
    drawn = trainer.draw_batches(sequences, training.batch_size, job.seed)
    return Case(job, list(islice(drawn, training.steps)))


def random_llama(folder: Path) -> str:
    """Write a Llama of 110 million random weights with the built-in base's tokenizer."""
    tokenizer: Any = load_base(BASE, device="cpu").tokenizer
    loaded = llama(tokenizer, torch.float32, vocab_size=len(tokenizer), max_position_embeddings=512)
    loaded.model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def ours(work: Case, *, compiled: bool) -> Callable[[], tuple[float, Any]]:
    """Return a training by fedaudit, which gives its mean loss and its adapter."""
    job = work.job
    lora = json.dumps(adapters.check(job.start), sort_keys=True)
    model = trainer.cached_model(job.base, job.device, job.dtype, lora, False)  # that of `train`
    if compiled:
        decoder: Any = model.get_base_model()
        for layer in decoder.model.layers:
            layer.compile(dynamic=True)

    def run() -> tuple[float, Any]:
        return trainer.train(job), adapters.read(job.out)

    return run


def theirs(work: Case, kind: type[Trainer], folder: Path) -> Callable[[], tuple[float, Any]]:
    """Return the same training by PEFT and the Trainer."""
    job, settings = work.job, work.job.training
    config = PeftConfig.from_peft_type(**{**adapters.check(job.start), "inference_mode": False})
    base = load_base(job.base, device="cpu", dtype="float32")  # fedaudit's own is of another dtype
    model: Any = with_adapter(base.model, config, ADAPTER, trainable=True)
    rows = [row for batch in work.batches for row in batch]
    arguments = TrainingArguments(
        output_dir=str(folder / "trainer"), max_steps=settings.steps, use_cpu=True, seed=job.seed,
        per_device_train_batch_size=settings.batch_size, learning_rate=settings.learning_rate,
        lr_scheduler_type="linear", weight_decay=0.0, max_grad_norm=settings.clip,
        save_strategy="no", report_to=[], disable_tqdm=True, logging_strategy="no",
    )  # fmt: skip

    def run() -> tuple[float, Any]:
        fit(model, adapters.read(job.start), ADAPTER, str(job.start))
        own = kind(
            model=model,
            args=arguments,
            train_dataset=[{"input_ids": row} for row in rows],
            data_collator=lambda some: trainer.pad_batch([one["input_ids"] for one in some], "cpu"),
        )
        own.remove_callback(PrinterCallback)
        return own.train().training_loss, tensors_of(model, ADAPTER)

    return run


def compared(given: argparse.Namespace, create: Callable[[Path], Case]) -> None:
    """Print the ratios of one kind of training."""
    with tempfile.TemporaryDirectory() as folder:
        work = create(Path(folder))
        ways = {
            SAME: theirs(work, InOrder, Path(folder)),
            OWN: theirs(work, Trainer, Path(folder)),
            OURS: ours(work, compiled=given.compile),
        }
        if given.bfloat16:
            ways[MIXED] = theirs(work, InOrderMixed, Path(folder))
            mixed = replace(work, job=replace(work.job, dtype="bfloat16"))
            ways[OURS] = ours(mixed, compiled=given.compile)
        spent, found = in_turn(ways, given.repeats)
        first = adapters.read(work.job.start)
    rate = work.tokens / median(spent[OURS])
    chosen = work.job.training
    print(
        f"\nrank {chosen.rank}, loss over the {chosen.learned}, batches of {chosen.batch_size}: "
        f"{rate:,.0f} tokens a second, {work.distinct:.2f} of the tokens are distinct prefixes",
        flush=True,
    )
    for peer in (name for name in ways if name != OURS):
        print(line(peer, spent, peer, OURS))
    (loss, adapter), (peer_loss, peer_adapter) = found[OURS], found[SAME]
    far = sum(float((adapter[n] - peer_adapter[n]).square().sum()) for n in adapter) ** 0.5
    way = sum(float((adapter[n] - first[n]).square().sum()) for n in adapter) ** 0.5
    print(f"losses {loss:.6f} and {peer_loss:.6f}; adapters apart {far / way:.1e} of their way")


def main() -> None:
    """Print the ratios of every kind of training."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--base", default=BASE)
    parser.add_argument("--bfloat16", action="store_true", help="fedaudit's base in bfloat16")
    parser.add_argument("--compile", action="store_true", help="fedaudit's layers compiled")
    parser.add_argument("--rank", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--learned", nargs="+", choices=["text", "answer"], default=["text"])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--profile", nargs="+", default=[], help="train a profile's client")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    quiet()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    cases = [partial(profile_case, given, name) for name in given.profile] or [
        partial(case, given, rank, learned) for rank in given.rank for learned in given.learned
    ]
    for create in cases:
        compared(given, create)


if __name__ == "__main__":
    main()
