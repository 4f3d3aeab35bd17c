"""A client's records with its canaries among them."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError, unknown_name_error
from fedaudit.api.templates import PromptTemplate, template
from fedaudit.canaries import canary_file
from fedaudit.canaries.canary_file import Canary, CanarySet
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
    form = template(order.template)
    records = list(corpus.read_records(order.records, form))
    held = sum(any(one.secret in record.document.text for one in own) for record in records)
    if held:
        raise InputError(f"{order.records} holds canaries of {order.client} already.")
    rng = random.SystemRandom() if order.seed is None else random.Random(f"plant {order.seed}")
    annotated = all(record.document.pii is not None for record in records)
    taken = {record.document.id for record in records}
    fields = [record.given for record in records]
    copies = canary_records(found, order.client, form, taken, rng, annotated=annotated)
    mixed = [*fields, *copies]
    rng.shuffle(mixed)
    corpus.write_fields(order.out, mixed, array=corpus.is_array(order.records))
    return PlantedRecords(len(mixed), len(own), len(copies))


def canary_records(
    found: CanarySet,
    client: str,
    form: PromptTemplate,
    taken: set[str],
    rng: random.Random,
    *,
    annotated: bool,
) -> list[dict[str, Any]]:
    """Return the records that a client is given, a new id each, which `taken` gets as well."""
    own = [one for one in found.planted if one.client == client]
    made = ((one, _record(one, found, form, annotated=annotated)) for one in own)
    return [{"id": new_id(taken, rng), **record} for one, record in made for _ in range(one.times)]


def _record(
    one: Canary, found: CanarySet, form: PromptTemplate, *, annotated: bool
) -> dict[str, Any]:
    """Return a copy's record, but for its id; spans count in the text that is trained on."""
    fields: dict[str, Any] = {"text": one.whole}
    if found.instruction:
        fields = {"instruction": found.instruction, "output": one.whole}
    if annotated:
        start = len(found.heading(form)) + len(one.prefix)
        fields["pii"] = [{"start": start, "end": start + len(one.secret), "label": found.label}]
    return fields


def new_id(taken: set[str], rng: random.Random) -> str:
    """Return a random id that is none of those `taken`, and take it."""
    while (name := f"{rng.getrandbits(4 * ID_DIGITS):0{ID_DIGITS}x}") in taken:
        pass
    taken.add(name)
    return name
