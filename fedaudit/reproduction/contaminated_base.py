"""A base that was trained on some of a federation's cases before: contaminated pre-training."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fedaudit.api.records import Document
from fedaudit.simulation.config import Simulation, Training
from fedaudit.system.files import atomic_folder

FOLDER = "bases"
"""Where such bases are kept, beside the folder of federations."""


def contaminated_base(config: Simulation, share: float, federations: Path) -> Path:
    """Return the folder of the base that saw `share` of the cases of a federation's records."""
    key = hashlib.sha256(f"{config.sha256()} {share}".encode()).hexdigest()[:12]
    return federations.parent / FOLDER / key


def seen_documents(documents: Sequence[Document], share: float, seed: int) -> list[Document]:
    """Return all documents of `share` of the groups, at least one, drawn by the hash of their name.

    A document without a group is one of its own.
    """
    groups = {document.group or document.id for document in documents}

    def rank(group: str) -> bytes:
        return hashlib.sha256(f"seen before {seed} {group}".encode()).digest()

    seen = set(sorted(groups, key=rank)[: max(1, round(share * len(groups)))])
    return [document for document in documents if (document.group or document.id) in seen]


def write_contaminated_base(config: Simulation, share: float, out: Path) -> None:
    """Train `config`'s base on `share` of its cases, in `out`, unless it is there.

    It makes as many passes over them as the federation makes over its own records, if all clients
    train in all rounds, by an adapter with the federation's settings that is merged into the
    weights. Held-out records are not among them.
    """
    from fedaudit.config import registry
    from fedaudit.engine.lora.adapter import merged_weights
    from fedaudit.simulation import initialization
    from fedaudit.simulation.client import trainer
    from fedaudit.simulation.data.datasets import training_sequences

    if out.exists():
        return
    _, documents = initialization.set_aside(config, initialization.documents(config))
    seen = seen_documents(documents, share, config.seed)
    base = trainer.plain_base(config.base, config.device, config.dtype)
    with TemporaryDirectory() as place, atomic_folder(out) as folder:
        start, end = Path(place) / "start", Path(place) / "end"
        initialization.initial_adapter(config, base, start)
        trainer.train(
            trainer.ClientTraining(
                model_name="the contaminated base",
                base=config.base,
                start=start,
                out=end,
                sequences=training_sequences(config.training, base, seen),
                training=_whole(config, len(documents), len(seen)),
                round=1,
                rounds=1,
                seed=config.seed,
                aggregator=registry.create("aggregation", "fedavg", {}),
                device=config.device,
                dtype=config.dtype,
                threads=config.threads,
            )
        )
        base = trainer.plain_base(config.base, config.device, config.dtype)
        with merged_weights(base.model, end):
            base.model.save_pretrained(folder)
        base.tokenizer.save_pretrained(folder)
    trainer.forget_base()


def _whole(config: Simulation, documents: int, seen: int) -> Training:
    """Return the settings of all rounds as one training on the `seen` documents."""
    training = config.training
    if not training.steps:
        return replace(training, epochs=config.rounds * training.epochs)
    share = seen * config.clients / documents
    return replace(training, steps=max(1, round(config.rounds * training.steps * share)))
