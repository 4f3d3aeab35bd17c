"""A client's turn: its training, and a defence's follow-up before anything is sent."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.api.defense import Defense, TrainedClient
from fedaudit.api.errors import UsageError
from fedaudit.api.plugin import Aggregator
from fedaudit.api.records import Document
from fedaudit.data import corpus
from fedaudit.federation import adapters
from fedaudit.simulation.client import trainer
from fedaudit.simulation.client.trainer import ClientTraining, FollowUpTraining
from fedaudit.simulation.data.datasets import Sequences, training_sequences
from fedaudit.system.files import atomic_text, read_json

if TYPE_CHECKING:
    from fedaudit.engine.loading.loader import LoadedBase

OWN, TURN = "own", "turn"
"""Folders in a client's private folder: the shared adapter as trained, and files of its turns."""
LENGTHS = "tokens.json"
"""The file in a turn's folder with the length of each sequence of a further adapter's training."""


def check(defenses: Sequence[Defense], aggregator: Aggregator) -> None:
    """Refuse defences and an aggregation that cannot be combined in a client's turn."""
    follow_up_defenses = [defense for defense in defenses if defense.auxiliary_adapters]
    if len(follow_up_defenses) > 1:
        names = " and ".join(d.name for d in follow_up_defenses)
        raise UsageError(f"The defences {names} both go on after training: leave one of them out.")
    if follow_up_defenses and (aggregator.merges_each_round or aggregator.stateful_clients):
        raise UsageError(
            f"The aggregation {aggregator.name} trains in a way of its own, which the defence "
            f"{follow_up_defenses[0].name} does not go on from: choose another of either."
        )


def follow_up_defense(defenses: Sequence[Defense]) -> Defense | None:
    """Return the defence with a follow-up after training, if any; there is at most one."""
    return next((defense for defense in defenses if defense.auxiliary_adapters), None)


def train(job: ClientTraining) -> float:
    """Run a training job and its follow-up, and return the loss of the shared adapter."""
    loss = trainer.train(job)
    if job.follow_up:
        _train_auxiliary_adapters(job, job.follow_up)
    return loss


def _train_auxiliary_adapters(job: ClientTraining, follow_up: FollowUpTraining) -> None:
    """Get the training data of every further adapter from the defence, write it and train on it."""
    material = _auxiliary_data(job, follow_up)
    sequences = dict[str, Sequences]()
    for name, (documents, tokens) in material.items():
        corpus.write(follow_up.folder / f"{name}.jsonl", documents)
        sequences[name] = tokens
    lengths = {name: [len(ids) for ids in tokens] for name, tokens in sequences.items()}
    atomic_text(follow_up.folder / LENGTHS, json.dumps(lengths) + "\n")
    for name, (folder, seed) in follow_up.adapters.items():
        if not sequences[name]:
            adapters.write(adapters.read(job.start), adapters.check(job.start), folder)
            continue
        adapter_job = replace(job, out=folder, sequences=sequences[name], seed=seed)
        trainer.train(
            replace(adapter_job, model_name=f"{job.model_name}/{name}", defenses=(), follow_up=None)
        )


def _auxiliary_data(
    job: ClientTraining, follow_up: FollowUpTraining
) -> dict[str, tuple[Sequence[Document], Sequences]]:
    """Return what each further adapter is trained on, as documents and as tokens.

    The engine loads its own base model, which is released before any training.
    """
    import torch

    from fedaudit.engine.loading.loader import load_base
    from fedaudit.engine.local import LocalEngine

    threads = torch.get_num_threads()
    torch.set_num_threads(job.threads)
    base: LoadedBase = load_base(job.base, device=job.device, dtype=job.dtype)
    turn = TrainedClient(
        engine=LocalEngine(base, template=follow_up.template),
        template=follow_up.template,
        documents=follow_up.documents,
        start=job.start,
        trained=job.out,
        folder=follow_up.folder,
        max_length=min(job.training.max_length, base.context_length),
        round=job.round,
        seed=job.seed,
    )
    data = follow_up.defense.auxiliary_data(turn)
    torch.set_num_threads(threads)
    return {
        name: (documents := data.get(name, ()), training_sequences(job.training, base, documents))
        for name in follow_up.adapters
    }


def sequence_lengths(folder: Path) -> Mapping[str, Sequence[int]]:
    """Return how long the sequences of each further adapter were, from a turn's folder."""
    table: dict[str, list[int]] = read_json(folder / LENGTHS, "")
    return table


def round_folders(private_folder: Path, rounds: Sequence[int]) -> Iterator[tuple[int, Path]]:
    """Yield (round, folder) of every turn that a client's private folder holds."""
    for number in rounds:
        if (folder := private_folder / TURN / f"{number:03d}").is_dir():
            yield number, folder
