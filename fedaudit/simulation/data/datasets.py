"""What each client trains on: its documents, as they are and as the defences prepare them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedaudit.api.defense import Defense
from fedaudit.api.errors import InputError
from fedaudit.api.records import Document
from fedaudit.data import corpus
from fedaudit.data.annotation import annotate
from fedaudit.federation.manifest import ManifestClient
from fedaudit.simulation.config import Simulation, Training
from fedaudit.simulation.data.loss_mask import mask_prompt

Sequences = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientDocuments:
    """A client's documents: its own, those of the shared adapter, those of private ones."""

    documents: Sequence[Document]
    prepared: Sequence[Document]
    private: Mapping[str, Sequence[Document]]
    annotation: str | None = None
    """The detector of the PII that defences protect; None if the documents are annotated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSequences:
    """Clients' documents as token sequences; `private` by client and then by adapter."""

    shared: Mapping[str, Sequences]
    private: Mapping[str, Mapping[str, Sequences]]


def client_documents(
    config: Simulation, out: Path, clients: Sequence[ManifestClient], defenses: Sequence[Defense]
) -> dict[str, ClientDocuments]:
    """Return each client's training documents, after preparation by the defences.

    Defences see the documents of one client at a time, as they would at the client itself.
    """
    form, result = config.prompt_template, {}
    for client in clients:
        documents, annotator = list(corpus.read(out / client.data, form)), None
        if any(defense.needs_annotation for defense in defenses):
            documents, annotator = annotate(documents, config.detector)
        prepared, private = documents, dict[str, Sequence[Document]]()
        for defense in defenses:
            try:
                prepared = defense.prepare(prepared)
                private_documents = defense.private(documents)
            except InputError as error:
                hint = f" (PII found by {annotator})" if annotator else ""
                raise InputError(f"{client.id}: {error}{hint}") from None
            private |= {name: d for name, d in private_documents.items() if d}
        result[client.id] = ClientDocuments(
            documents=documents, prepared=prepared, private=private, annotation=annotator
        )
    return result


def tokenize_clients(
    config: Simulation, base: Any, materials: Mapping[str, ClientDocuments]
) -> ClientSequences:
    """Return the token sequences of every client's documents."""

    def cut(documents: Sequence[Document]) -> Sequences:
        return training_sequences(config.training, base, documents)

    return ClientSequences(
        shared={client: cut(material.prepared) for client, material in materials.items()},
        private={
            client: {name: cut(documents) for name, documents in material.private.items()}
            for client, material in materials.items()
        },
    )


def length_caveats(tokens: ClientSequences, max_length: int) -> list[str]:
    """Return a caveat with the number of records that training reads no more of than `max_length`.

    What lies beyond was not trained on, though it is among the records that attacks look for.
    """
    every = [sequence for sequences in tokens.shared.values() for sequence in sequences]
    filled = sum(len(sequence) >= max_length for sequence in every)
    if not filled:
        return []
    return [
        f"{filled:,} of {len(every):,} records have {max_length:,} tokens or more, and training "
        f"read {max_length:,} of each (training.max_length)."
    ]


def training_sequences(training: Training, base: Any, documents: Sequence[Document]) -> Sequences:
    """Return the token sequences for training on `documents`."""
    length = min(training.max_length, base.context_length)
    if training.learned == "answer":
        return mask_prompt(base.tokenizer, documents, length)
    return text_sequences(base.tokenizer, [document.text for document in documents], length)


def text_sequences(tokenizer: Any, texts: Sequence[str], max_length: int) -> list[list[int]]:
    """Return each text's tokens, with the tokenizer's start and end tokens, cut to `max_length`."""
    end = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    return [[*tokenizer(text)["input_ids"], *end][:max_length] for text in texts]
