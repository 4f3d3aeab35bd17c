"""A client's records with its canaries among them."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError, unknown_name_error
from fedaudit.api.templates import PromptTemplate, template
from fedaudit.canaries import canary_file
from fedaudit.canaries.canary_file import Canary, CanarySet
from fedaudit.data import corpus, tables
from fedaudit.system.files import check_free

ID_DIGITS = 16
"""Hexadecimal digits of a planted record's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantRequest:
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
    empty: Sequence[str] = ()
    """A line on the records without any text, which are left out, if there are some."""


def plant(request: PlantRequest) -> PlantedRecords:
    """Write a client's records and the copies of its canaries, shuffled, into a new file.

    The records themselves are unchanged. Raises InputError if the output file exists or records
    already hold one of the secrets, and UsageError for a client without canaries.
    """
    canaries = canary_file.read(request.canaries)
    client_canaries = [canary for canary in canaries.planted if canary.client == request.client]
    if not client_canaries:
        clients = dict.fromkeys(canary.client for canary in canaries.planted)
        raise unknown_name_error(f"client of {request.canaries.name}", request.client, clients)
    check_free(request.out, "the records")
    if tables.is_table(request.out) or tables.is_table(request.records):
        raise InputError(
            f"{request.records} or {request.out} is a table, and canaries are planted in JSONL: "
            "convert the records first."
        )
    form = template(request.template)
    unread: Counter[str] = Counter()
    records = list(corpus.read_records(request.records, form, unread))
    count = sum(
        any(c.secret in record.document.text for c in client_canaries) for record in records
    )
    if count:
        raise InputError(f"{request.records} holds canaries of {request.client} already.")
    rng = random.SystemRandom() if request.seed is None else random.Random(f"plant {request.seed}")
    annotated = all(record.document.pii is not None for record in records)
    ids = {record.document.id for record in records}
    fields = [record.fields for record in records]
    copies = canary_records(canaries, request.client, form, ids, rng, annotated=annotated)
    mixed = [*fields, *copies]
    rng.shuffle(mixed)
    corpus.write_fields(request.out, mixed, array=corpus.is_array(request.records))
    empty = corpus.empty_caveat(request.records, unread)
    return PlantedRecords(len(mixed), len(client_canaries), len(copies), empty)


def canary_records(
    canaries: CanarySet,
    client: str,
    form: PromptTemplate,
    ids: set[str],
    rng: random.Random,
    *,
    annotated: bool,
) -> list[dict[str, Any]]:
    """Return the records of a client's canaries, each with a new id that is added to `ids`."""
    client_canaries = [canary for canary in canaries.planted if canary.client == client]
    pairs = (
        (canary, _record(canary, canaries, form, annotated=annotated)) for canary in client_canaries
    )
    return [
        {"id": new_id(ids, rng), **record} for canary, record in pairs for _ in range(canary.times)
    ]


def _record(
    canary: Canary, canaries: CanarySet, form: PromptTemplate, *, annotated: bool
) -> dict[str, Any]:
    """Return a copy's record, but for its id; spans count in the text that is trained on."""
    fields: dict[str, Any] = {"text": canary.sentence}
    if canaries.instruction:
        fields = {"instruction": canaries.instruction, "output": canary.sentence}
    if annotated:
        start = len(canaries.heading(form)) + len(canary.prefix)
        fields["pii"] = [
            {"start": start, "end": start + len(canary.secret), "label": canaries.label}
        ]
    return fields


def new_id(ids: set[str], rng: random.Random) -> str:
    """Return a random id that is not in `ids`, and add it there."""
    while (name := f"{rng.getrandbits(4 * ID_DIGITS):0{ID_DIGITS}x}") in ids:
        pass
    ids.add(name)
    return name
