"""Canaries in the records of a simulated federation."""

import random
import re
from collections.abc import Sequence
from dataclasses import replace

from fedaudit.api.errors import UsageError, unknown_name_error
from fedaudit.api.records import Document
from fedaudit.canaries.canary_file import CanarySet
from fedaudit.canaries.generator import CanaryRequest, make
from fedaudit.canaries.planting_plan import canary_records
from fedaudit.data import corpus
from fedaudit.simulation.config import Simulation

OPTION = re.compile(r"--(client|count|instruction|times)\b")
"""The options of `fedaudit canary make` that are settings here, as its messages name them."""


def plant_canaries(
    config: Simulation, client_documents: Sequence[Sequence[Document]], held_out: Sequence[Document]
) -> tuple[list[list[Document]], CanarySet | None]:
    """Return every client's documents with its canaries among them, and the canaries.

    The canaries are those of `fedaudit canary make` and `plant` with the federation's seed. Copies
    are annotated if all of a client's documents are. Without canaries nothing changes.
    """
    clients = [list(documents) for documents in client_documents]
    request = canary_request(config)
    if request is None:
        return clients, None
    names = config.client_names
    taking = [name for name in names if name not in config.without]
    canary_set = make(request, (d.text for documents in [*clients, held_out] for d in documents))
    rng = random.Random(f"plant {config.seed}")
    taken_ids = {d.id for documents in [*clients, held_out] for d in documents}
    for name, documents in zip(names, clients, strict=True):
        annotated = all(d.pii is not None for d in documents)
        form = config.prompt_template
        copies = canary_records(canary_set, name, form, taken_ids, rng, annotated=annotated)
        documents += [corpus.parse_document(record, form, "a canary") for record in copies]
        rng.shuffle(documents)
    # A client that is left out gets no canaries; the others get the same as if it took part.
    canaries = tuple(c for c in canary_set.canaries if not c.times or c.client in taking)
    return clients, replace(canary_set, canaries=canaries)


def check_canaries(config: Simulation) -> None:
    """Raise UsageError for canaries that cannot be made, whatever the documents are."""
    try:
        if request := canary_request(config):
            make(request)
    except UsageError as error:
        raise UsageError(OPTION.sub(_setting, str(error))) from None


def canary_request(config: Simulation) -> CanaryRequest | None:
    """Return which canaries the settings ask for, None for none; raises UsageError."""
    settings, names = config.canaries, config.client_names
    if not settings.count:
        return None
    if unknown := [name for name in settings.clients if name not in names]:
        raise unknown_name_error("client with canaries", unknown[0], names)
    recipients = settings.clients or tuple(names)
    if settings.count < (least := len(settings.times) * len(recipients)):
        raise UsageError(
            f"canaries.count {settings.count} is too few: every client gets one canary of each of "
            f"canaries.times at least, {least} in all."
        )
    return CanaryRequest(
        kind=settings.kind,
        language=settings.language,
        count=settings.count,
        times=settings.times,
        controls=settings.controls,
        clients=recipients,
        instruction=settings.instruction,
        template=config.template,
        seed=config.seed,
    )


def _setting(option: re.Match[str]) -> str:
    """Return the setting of an option of `fedaudit canary make`."""
    return "canaries.clients" if option[1] == "client" else f"canaries.{option[1]}"
