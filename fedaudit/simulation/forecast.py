"""Steps, tokens, operations, memory and disk of a simulation, before a model is loaded.

Documents are read, and tokenised if the base's tokenizer is on this machine; they are not dealt to
clients, so that clients count as equally large unless each has a file of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.defense import Defense
from fedaudit.api.records import Document
from fedaudit.report.units import amount, operations, size
from fedaudit.simulation import initialization
from fedaudit.simulation.client import training_pool
from fedaudit.simulation.config import Simulation, Training
from fedaudit.simulation.context import Run
from fedaudit.simulation.data import datasets
from fedaudit.simulation.data.client_files import read_client_files
from fedaudit.system.files import existing_path
from fedaudit.system.numbers import count_of, rough_duration

if TYPE_CHECKING:
    from fedaudit.engine.loading.base_size import BaseSize

ASSUMED = 1000
"""Documents that are assumed where the file that a profile names is not there."""
SAMPLE = 500
"""The maximum number of documents that are tokenised."""
BYTES_PER_TOKEN = 4
"""Bytes of text in a token where the tokenizer is not there."""
EFFICIENCY = 0.6
"""The share of the speed of plain products that training reaches."""
CARD = 200e12
"""Operations a second that training reaches on a large GPU in bfloat16, half of the products'."""
ADAPTER_BYTES, ADAPTER_STATE_BYTES = 4, 16
"""Bytes of a parameter of an adapter on disk, and in training with its gradient and moments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a federation's training comes to."""

    config: Simulation
    documents: Sequence[Document]
    """The documents that clients train on; empty where their file is not there."""
    missing: str = ""
    """The file of documents that is not there."""
    shares: Sequence[int]
    """Documents of each client."""
    longest: int
    """Tokens of the longest document, as far as training reads it."""
    trainings: int
    steps: int
    sequences: int
    tokens: int
    flops: int
    base: "BaseSize | None"
    memory: int
    """Bytes in each process that trains."""
    processes: int
    disk: int
    seconds: float
    """Seconds on this machine."""
    uncounted: tuple[str, ...]
    """Defences whose further training or generation is not counted."""

    def describe(self) -> list[str]:
        """Return the forecast in lines."""
        config, base = self.config, self.base
        lines = [
            f"Federation: {count_of(config.clients, 'client')}, "
            f"{count_of(config.rounds, 'round')} with {config.participants_per_round} of them; "
            + self._documents(),
            f"Training: {count_of(self.trainings, 'training')} in all, "
            f"{count_of(self.steps, 'step')}, {count_of(self.sequences, 'sequence')}, "
            f"about {amount(self.tokens)} tokens",
        ]
        if base is None:
            return [*lines, f"Base: {config.base} is not on this machine, so its size is unknown"]
        fetch = "" if base.folder else ", not on this machine"
        lines += [
            f"Base: {config.base}{fetch}, {amount(base.parameters)} parameters; an adapter has "
            f"{amount(base.adapter)} ({size(ADAPTER_BYTES * base.adapter)})",
            f"Operations: about {operations(self.flops)}",
            f"Time: about {rough_duration(self.seconds)} on this machine{on_card(self.flops)}; "
            "loading and evaluating are not counted",
            f"Memory: about {size(self.memory)}"
            + (f" in each of {self.processes} processes" if self.processes > 1 else ""),
            f"Disk: about {size(self.disk)}",
        ]
        if self.uncounted:
            lines.append(
                f"Not counted: what {', '.join(self.uncounted)} trains or generates in addition"
            )
        return lines

    def _documents(self) -> str:
        low, high = min(self.shares), max(self.shares)
        each = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        if self.missing:
            return (
                f"{self.missing} is not there, so {ASSUMED:,} documents of {self.longest:,} tokens "
                "are assumed"
            )
        return f"about {each} documents each"


def on_card(flops: int) -> str:
    """Return how long a large GPU trains, in words; empty if that is less than a minute."""
    seconds = flops / CARD
    if seconds < 60:
        return ""
    return f", {rough_duration(seconds)} on a GPU that trains at {CARD / 1e12:.0f} TFLOP/s"


def forecast(run: Run, given: Mapping[str, Any]) -> Forecast:
    """Return the forecast of a prepared simulation; no model is loaded.

    `given` are the settings that the user names: a file of theirs must exist (InputError), while
    one that a profile names may be missing.
    """
    config, settings = run.config, run.config.training
    shares, documents, missing = _documents(config, given)
    base = _base(config.base, settings)
    lengths = _lengths(config, documents, base) if documents else [settings.max_length]
    copies = config.records.copies or (1,)
    repeated = [round(share * sum(copies) / len(copies)) for share in shares]
    trained, steps, sequences = _trainings(config, repeated)
    tokens = round(sequences * sum(lengths) / len(lengths))
    processes = 1 if training_pool.trains_here(config) else training_pool.worker_count(config)
    device, dtype = _device(config)
    flops, memory, seconds = 0, 0, 0.0
    if base:
        again = 2 * base.multiplied if settings.checkpointing else 0
        flops = tokens * (4 * base.multiplied + 6 * base.adapter + again)
        memory = _memory(config, base, max(lengths), dtype.itemsize)
        seconds = flops / _speed(config, base, processes, device, dtype)
    return Forecast(
        config=config,
        documents=documents,
        missing=missing,
        shares=shares,
        longest=max(lengths),
        trainings=trained,
        steps=steps,
        sequences=sequences,
        tokens=tokens,
        flops=flops,
        base=base,
        memory=memory,
        processes=processes,
        disk=_disk(run, base, documents),
        seconds=seconds,
        uncounted=tuple(d.name for d in run.defenses if _works_in_addition(d)),
    )


@cache
def _base(name: str, settings: Training) -> "BaseSize | None":
    from fedaudit.engine.loading.base_size import base_size

    return base_size(name, initialization.lora_config(name, settings))


def _documents(
    config: Simulation, given: Mapping[str, Any]
) -> tuple[list[int], list[Document], str]:
    """Return the number of documents by client, the documents, and the file that is not there."""
    files = config.client_data or ({} if config.data == "nano" else {"": config.data})
    gone = [path for path in files.values() if not Path(path).exists()]
    if gone and not {"data", "client_data"} & given.keys():
        return [max(1, ASSUMED // config.clients)] * config.clients, [], gone[0]
    for path in gone:
        existing_path(Path(path), "file")
    if config.client_data:
        clients, _ = read_client_files(config)
        return [len(share) for share in clients], [d for share in clients for d in share], ""
    _, training = initialization.set_aside(config, initialization.documents(config))
    if shots := config.few_shot.each:
        training = training[: shots * config.few_shot.clusters]
    count = len(training)
    return [max(1, count // config.clients)] * config.clients, training, ""


def _lengths(
    config: Simulation, documents: Sequence[Document], base: "BaseSize | None"
) -> list[int]:
    """Return the tokens of some documents spread over all, as far as training reads them."""
    most = config.training.max_length
    some = documents[:: -(-len(documents) // SAMPLE)]
    if base is None or base.folder is None:
        return [
            min(most, 1 + len(d.text.encode("utf-8", "replace")) // BYTES_PER_TOKEN) for d in some
        ]
    from fedaudit.engine.loading.loader import load_tokenizer

    texts = [document.text for document in some]
    return [len(ids) for ids in datasets.text_sequences(load_tokenizer(base.folder), texts, most)]


def _trainings(config: Simulation, shares: Sequence[int]) -> tuple[int, int, int]:
    """Return how many trainings, optimizer steps and sequences there are in all rounds."""
    settings, clients = config.training, config.participants_per_round

    def steps(documents: float, batches: int = 1) -> int:
        per_step = settings.batch_size * settings.accumulation * batches
        return settings.steps or settings.epochs * -(-round(documents) // per_step)

    per_step = settings.batch_size * settings.accumulation
    client_steps = sum(map(steps, shares)) * clients / len(shares)
    jobs, step_count, sequences = float(clients), client_steps, client_steps * per_step
    if config.local != "no" and config.compares_utility:
        jobs, step_count = jobs + len(shares), step_count + sum(map(steps, shares))
        sequences += sum(map(steps, shares)) * per_step
    if config.central and config.compares_utility:
        own = steps(sum(shares), config.clients)
        jobs, step_count = jobs + 1, step_count + own
        sequences += own * per_step * config.clients
    rounds = config.rounds
    return round(jobs * rounds), round(step_count * rounds), round(sequences * rounds)


def _device(config: Simulation) -> tuple[Any, Any]:
    from fedaudit.engine.device import device_for, dtype_for

    device = device_for(config.device)
    return device, dtype_for(config.dtype, device)


def _speed(config: Simulation, base: "BaseSize", processes: int, device: Any, dtype: Any) -> float:
    """Return the operations a second that all processes together train at."""
    tokens = config.training.batch_size * config.training.max_length
    rate = _products_per_second(base, tokens, device, dtype, config.threads)
    return EFFICIENCY * rate * min(processes, config.participants_per_round + config.central)


@cache
def _products_per_second(
    base: "BaseSize", tokens: int, device: Any, dtype: Any, threads: int
) -> float:
    import torch

    from fedaudit.engine.loading.base_size import products_per_second

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return products_per_second(base, tokens, device, dtype)
    finally:
        torch.set_num_threads(before)


def _memory(config: Simulation, base: "BaseSize", longest: int, itemsize: int) -> int:
    """Return the bytes of a process that trains: weights, the adapter's state, activations.

    A layer keeps about 20 hidden states a token, or one where it computes them again; logits exist
    in float32 with their gradient.
    """
    settings = config.training
    tokens = longest * settings.batch_size * (config.clients if config.central else 1)
    states = base.layers + 20 if settings.checkpointing else 20 * base.layers
    activations = tokens * (states * base.hidden * itemsize + 8 * base.vocabulary)
    weights = base.parameters * itemsize + ADAPTER_STATE_BYTES * base.adapter
    from fedaudit.engine.loading.base_size import PROCESS_BYTES

    return PROCESS_BYTES + weights + activations


def _disk(run: Run, base: "BaseSize | None", documents: Sequence[Document]) -> int:
    """Return the bytes of a federation's folder: adapters, states, and documents."""
    config = run.config
    kept = 0 if run.secure else config.participants_per_round
    each_round = 1 + kept + (config.central and config.compares_utility)
    if config.local != "no" and config.compares_utility:
        each_round += config.clients
    if run.aggregator.stateful_clients:
        each_round += 1 + config.participants_per_round
    adapters = 1 + config.rounds * each_round
    texts = sum(len(document.text.encode("utf-8", "replace")) for document in documents)
    return adapters * ADAPTER_BYTES * (base.adapter if base else 0) + 2 * texts


def _works_in_addition(defense: Defense) -> bool:
    """Tell whether a defence overrides a stage that trains or generates."""
    stages = ("private", "train", "auxiliary_data", "deploy")
    return any(getattr(type(defense), name) is not getattr(Defense, name) for name in stages)
