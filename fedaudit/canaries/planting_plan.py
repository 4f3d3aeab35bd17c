"""A client's records with its canaries among them."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError, unknown_name_error
from fedaudit.api.templates import template
from fedaudit.canaries import canary_file
from fedaudit.canaries.canary_file import Canary
from fedaudit.data import corpus
from fedaudit.system.files import existing_parent

ID_DIGITS = 16
"""Hexadecimal digits of a planted record's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantOrder:
    """A client's records, and where they go with its canaries."""

    canaries: Path
    records: Path
    client: str
    out: Path
    template: str = "fed_pii"
    seed: int | None = None
    """Whoever knows it knows which places the canaries got; None draws what nobody can guess."""


@dataclass(frozen=True, slots=True)
class PlantedRecords:
    """What was written."""

    records: int
    """All of them, the planted ones included."""
    canaries: int
    copies: int


def plant(order: PlantOrder) -> PlantedRecords:
    """Write a client's records and the copies of its canaries, shuffled, into a new file.

    The records stay as they stand in their file. Raises InputError for a place where something is,
    for records that hold one of the secrets already, and UsageError for a client that has none.
    """
    found = canary_file.read(order.canaries)
    own = [one for one in found.planted if one.client == order.client]
    if not own:
        clients = dict.fromkeys(one.client for one in found.planted)
        raise unknown_name_error(f"client of {order.canaries.name}", order.client, clients)
    if order.out.exists() or order.out.is_symlink():
        raise InputError(f"{order.out} exists already; choose another place for the records.")
    existing_parent(order.out.absolute().parent)
    records = list(corpus.read_records(order.records, template(order.template)))
    held = sum(any(one.secret in record.document.text for one in own) for record in records)
    if held:
        raise InputError(f"{order.records} holds canaries of {order.client} already.")
    rng = random.SystemRandom() if order.seed is None else random.Random(f"plant {order.seed}")
    annotated = all(record.document.pii is not None for record in records)
    taken = {record.document.id for record in records}
    fields = [record.given for record in records]
    copies = _copies(own, found.label if annotated else "", taken, rng)
    mixed = [*fields, *copies]
    rng.shuffle(mixed)
    corpus.write_fields(order.out, mixed, array=corpus.is_array(order.records))
    return PlantedRecords(len(mixed), len(own), len(copies))


def _copies(
    own: Sequence[Canary], label: str, taken: set[str], rng: random.Random
) -> list[Mapping[str, Any]]:
    """Return a record for each copy, with ids of its own, annotated where there is a label."""
    return [
        {"id": _new_id(taken, rng), "text": one.whole} | _annotation(one, label)
        for one in own
        for _ in range(one.times)
    ]


def _annotation(one: Canary, label: str) -> dict[str, Any]:
    """Return what a copy's record says of its personal data; nothing without a label."""
    start = len(one.prefix)
    span = {"start": start, "end": start + len(one.secret), "label": label}
    return {"pii": [span]} if label else {}


def _new_id(taken: set[str], rng: random.Random) -> str:
    while (name := f"{rng.getrandbits(4 * ID_DIGITS):0{ID_DIGITS}x}") in taken:
        pass
    taken.add(name)
    return name
