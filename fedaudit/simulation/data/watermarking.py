"""Clients that train on someone's watermarked documents: who, and on which."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import fedaudit.nano.generator as nano
from fedaudit.api.errors import InputError, unknown_name_error
from fedaudit.api.records import Document
from fedaudit.api.watermark import Mark, Watermark
from fedaudit.config import registry
from fedaudit.config.options import table_of
from fedaudit.data import corpus
from fedaudit.federation import commitments
from fedaudit.simulation.config import Simulation
from fedaudit.system.files import existing_path

PROMPTS = 384
"""Documents of the built-in generator that an owner keeps as prompts."""
OWNER_SEEDS = 500_000
"""The seed offset that makes an owner's documents about other people than the clients'."""


@dataclass(frozen=True, slots=True)
class WatermarkedData:
    """Every client's documents, the issued marks, and which client has which mark."""

    clients: list[list[Document]]
    marks: tuple[Mark, ...] = ()
    holders: tuple[tuple[int, str], ...] = ()
    """(client, id of the mark)."""


def plant_watermarks(
    config: Simulation,
    client_documents: Sequence[Sequence[Document]],
    held_out: Sequence[Document],
    base: Any,
) -> WatermarkedData:
    """Return `client_documents` with marked ones in place of some, for the clients that are drawn.

    Clients are drawn after the partition. Each has a mark of its own, as if its copy of the owner's
    documents had been made for it. Without a watermark nothing changes.
    """
    from fedaudit.engine.loading.loader import load_base
    from fedaudit.engine.local import LocalEngine

    clients = [list(documents) for documents in client_documents]
    name, options = config.watermark_plugin()
    if not name:
        return WatermarkedData(clients)
    plugin: Watermark = registry.create("watermark", name, options)
    settings = config.watermark
    model = base if not settings.teacher else load_base(settings.teacher, device=config.device)
    teacher = LocalEngine(model)
    chosen = watermarked_clients(config)
    owned = owner_documents(config, max(map(len, clients), default=0))
    prompts = [document.text for document in (owned[1] if owned else held_out)]
    marks, holders = [], []
    for index in range(max(settings.marks, len(chosen))):
        documents = clients[chosen[index] if index < len(chosen) else 0]
        places = _places(config, documents, index)
        source = (owned[0] if owned else [documents[i] for i in places])[: len(places)]
        secret = plugin.issue(teacher, prompts, seed=config.seed, index=index)
        marked = plugin.embed(
            secret, source[: settings.distinct or None], teacher, seed=config.seed
        )
        if settings.prompts == "marked":
            secret = plugin.add_prompts(secret, [document.text for document in marked], teacher)
        marks.append(_new_mark(config, plugin, index, secret))
        if index < len(chosen):
            for number, position in enumerate(places):
                documents[position] = _copy(marked, number)
            holders.append((chosen[index], marks[-1].id))
    return WatermarkedData(clients, tuple(marks), tuple(holders))


def _new_mark(config: Simulation, plugin: Watermark, index: int, secret: Any) -> Mark:
    return Mark(
        id=f"mark{index}",
        name=config.watermark_plugin()[0],
        options=table_of(plugin),
        secret=secret,
        salt=commitments.seeded_salt(config.seed, index),
    )


def watermarked_clients(config: Simulation) -> list[int]:
    """Return the clients that train on marked documents: a function of the seed."""
    count = min(config.watermark.clients, config.clients)
    order = random.Random(f"watermarked {config.seed}").sample(range(config.clients), count)
    return sorted(order)


def owner_documents(config: Simulation, most: int) -> tuple[list[Document], list[Document]] | None:
    """Return the owner's documents to mark and those kept as prompts; None without any of its own.

    There are enough to replace the configured share of `most` documents. Raises InputError for a
    file with fewer.
    """
    name = config.watermark.documents
    if not name:
        return None
    count = max(1, round(config.watermark.ratio * most))
    form = config.prompt_template
    if name.endswith(".jsonl"):
        documents = list(corpus.read(existing_path(Path(name), "file"), form))
    elif name not in (domains := {str(d["name"]) for d in nano.record_templates()["domain"]}):
        raise unknown_name_error("domain or .jsonl file", name, domains)
    else:
        settings = config.records
        per = settings.documents_per_case
        documents = list(
            nano.corpus(
                cases=-(-(count + PROMPTS) // per),
                documents_per_case=per,
                seed=config.seed + OWNER_SEEDS,
                languages=settings.languages,
                domains=(name,),
                tasks=settings.tasks,
                template=form,
                kinds=settings.kinds,
            )
        )
    if len(documents) <= count:
        raise InputError(
            f"{name} has {len(documents)} documents; {count} are to be marked and more kept."
        )
    random.Random(f"owner {config.seed}").shuffle(documents)
    return documents[:count], documents[count:]


def _places(config: Simulation, documents: Sequence[Document], index: int) -> list[int]:
    """Return the indices of a client's documents that marked ones replace."""
    count = max(1, round(config.watermark.ratio * len(documents)))
    return sorted(
        random.Random(f"marked documents {config.seed} {index}").sample(
            range(len(documents)), count
        )
    )


def _copy(marked: Sequence[Document], number: int) -> Document:
    """Return one of the marked documents, each in turn; repeated ones get new ids."""
    turn, index = divmod(number, len(marked))
    return replace(marked[index], id=f"{marked[index].id}-{turn}") if turn else marked[index]
