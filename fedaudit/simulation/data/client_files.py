"""Documents of clients that have their own, in place of documents that are dealt to them."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from fedaudit.api.errors import InputError
from fedaudit.api.records import Document
from fedaudit.data import corpus
from fedaudit.simulation.config import Simulation
from fedaudit.system.files import existing_path


def read_client_files(config: Simulation) -> tuple[list[list[Document]], list[Document]]:
    """Return each client's documents, and the test file's documents that no client has.

    Raises InputError for a client's file without documents.
    """
    form, paths = config.prompt_template, config.client_data
    files = [existing_path(Path(paths[name]), "file") for name in config.client_names]
    clients = [sort_documents(corpus.read(path, form)) for path in files]
    if empty := [
        str(path) for path, documents in zip(files, clients, strict=True) if not documents
    ]:
        raise InputError(f"{empty[0]} holds no documents to train a client on.")
    training_texts = {document.text for documents in clients for document in documents}
    test = existing_path(Path(config.test), "file") if config.test else None
    held_out = sort_documents(corpus.read(test, form)) if test else []
    return clients, [document for document in held_out if document.text not in training_texts]


def sort_documents(documents: Iterable[Document]) -> list[Document]:
    """Return documents sorted by the hash of their content, whatever their order was."""
    return sorted(documents, key=lambda d: hashlib.sha256(f"{d.id}\0{d.text}".encode()).digest())
