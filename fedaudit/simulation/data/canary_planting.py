"""Canaries in the records of a simulated federation."""

import random
from collections.abc import Sequence
from dataclasses import replace

from fedaudit.api.errors import UsageError, unknown_name_error
from fedaudit.api.records import Document
from fedaudit.canaries.canary_file import CanarySet
from fedaudit.canaries.generator import CanaryOrder, make
from fedaudit.canaries.planting_plan import canary_records
from fedaudit.data import corpus
from fedaudit.simulation.config import Simulation


def plant_canaries(
    config: Simulation, dealt: Sequence[Sequence[Document]], held_out: Sequence[Document]
) -> tuple[list[list[Document]], CanarySet | None]:
    """Return every client's documents with its canaries among them, and the canaries.

    They are those of `fedaudit canary make` and `plant` with the federation's seed. Copies are
    annotated where all of a client's documents are. Without canaries nothing changes.
    """
    clients, wanted = [list(own) for own in dealt], config.canaries
    if not wanted.count:
        return clients, None
    names = config.client_names
    taking = [name for name in names if name not in config.without]
    whose = wanted.clients or tuple(names)
    if wanted.count < (least := len(wanted.times) * len(whose)):
        raise UsageError(
            f"canaries.count {wanted.count} is too few: every client gets one canary of each of "
            f"canaries.times at least, {least} in all."
        )
    order = CanaryOrder(
        kind=wanted.kind,
        language=wanted.language,
        count=wanted.count,
        times=wanted.times,
        controls=wanted.controls,
        clients=whose,
        instruction=wanted.instruction,
        template=config.template,
        seed=config.seed,
    )
    if unknown := [name for name in order.clients if name not in names]:
        raise unknown_name_error("client with canaries", unknown[0], names)
    found = make(order, (one.text for own in [*clients, held_out] for one in own))
    rng = random.Random(f"plant {config.seed}")
    taken = {one.id for own in [*clients, held_out] for one in own}
    for name, own in zip(names, clients, strict=True):
        annotated = all(one.pii is not None for one in own)
        form = config.prompt_template
        copies = canary_records(found, name, form, taken, rng, annotated=annotated)
        own += [corpus.parse_document(one, form, "a canary") for one in copies]
        rng.shuffle(own)
    # Whoever is left out gets none, and the others those that they would have had beside it.
    kept = tuple(one for one in found.canaries if not one.times or one.client in taking)
    return clients, replace(found, canaries=kept)
