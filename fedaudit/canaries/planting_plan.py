"""A client's records with its canaries among them, or with those that coins put in."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from fedaudit.api.errors import InputError, UsageError, unknown_name_error
from fedaudit.api.templates import PromptTemplate, template
from fedaudit.canaries import canary_file, coin_file
from fedaudit.canaries.canary_file import Canary, CanarySet
from fedaudit.system.files import check_free

if TYPE_CHECKING:
    from fedaudit.data import corpus

ID_DIGITS = 16
"""Hexadecimal digits of a planted record's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantRequest:
    """A client's records, and where they go with its canaries."""

    secrets: Path
    """The file of canaries, or of canaries and coins."""
    records: Annotated[Path, Option("--records", help="The client's records, as JSONL.")]
    client: Annotated[str, Option("--client", help="Whose records they are.")]
    """Empty where no one says, with coins."""
    out: Annotated[
        Path, Option("--out", help="Where the records go with the canaries among them, as JSONL.")
    ]
    seed: Annotated[
        int | None,
        Option("--seed", help="Makes the order repeatable for anybody who knows it."),
    ] = None
    template: str = "fed_pii"

    def read(self) -> "tuple[list[corpus.CorpusRecord], Counter[str]]":
        """Return the records, and counts of what was not read; refuse tables and a file to keep."""
        from fedaudit.data import corpus, tables

        check_free(self.out, "the records")
        if tables.is_table(self.out) or tables.is_table(self.records):
            raise InputError(
                f"{self.records} or {self.out} is a table, and canaries are planted in JSONL: "
                "convert the records first."
            )
        unread: Counter[str] = Counter()
        return list(corpus.read_records(self.records, template(self.template), unread)), unread

    def generator(self) -> random.Random:
        """Return the generator of order and ids."""
        return random.SystemRandom() if self.seed is None else random.Random(f"plant {self.seed}")


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
    canaries = canary_file.read(request.secrets)
    client_canaries = [canary for canary in canaries.planted if canary.client == request.client]
    if not client_canaries:
        clients = dict.fromkeys(canary.client for canary in canaries.planted)
        raise unknown_name_error(f"client of {request.secrets.name}", request.client, clients)
    records, unread = request.read()
    if any(c.secret in record.document.text for record in records for c in client_canaries):
        raise InputError(f"{request.records} holds canaries of {request.client} already.")
    rng = request.generator()
    annotated = all(record.document.pii is not None for record in records)
    ids = {record.document.id for record in records}
    form = template(request.template)
    copies = canary_records(canaries, request.client, form, ids, rng, annotated=annotated)
    return _write(request, records, copies, len(client_canaries), rng, unread)


def plant_coins(request: PlantRequest) -> PlantedRecords:
    """Write a client's records, and each canary that is in once, shuffled, into a new file.

    Raises InputError if the output file exists or records already hold a canary, and UsageError for
    another client's records.
    """
    coins = coin_file.read(request.secrets)
    if request.client and request.client != coins.client:
        raise UsageError(f"{request.secrets.name} is for {coins.client}, not for {request.client}.")
    records, unread = request.read()
    texts = {record.document.text for record in records}
    if count := sum(canary.text in texts for canary in coins.canaries):
        raise InputError(f"{request.records} holds {count:,} of the canaries already.")
    rng = request.generator()
    ids = {record.document.id for record in records}
    annotated = all(record.document.pii is not None for record in records)
    group = _corpus({record.document.group.partition("/") for record in records})
    planted = [
        _coin_record(canary.text, new_id(ids, rng), group, annotated=annotated)
        for canary in coins.canaries
        if canary.included
    ]
    return _write(request, records, planted, len(planted), rng, unread)


def _write(
    request: PlantRequest,
    records: "Sequence[corpus.CorpusRecord]",
    planted: Sequence[Mapping[str, Any]],
    canaries: int,
    rng: random.Random,
    unread: Mapping[str, int],
) -> PlantedRecords:
    """Write records and planted ones, shuffled."""
    from fedaudit.data import corpus

    mixed = [*(record.fields for record in records), *planted]
    rng.shuffle(mixed)
    corpus.write_fields(request.out, mixed, array=corpus.is_array(request.records))
    empty = corpus.empty_caveat(request.records, unread)
    return PlantedRecords(len(mixed), canaries, len(planted), empty)


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


def _corpus(groups: set[tuple[str, str, str]]) -> str:
    """Return the corpus that all groups are of, so that a simulation deals canaries with it."""
    names = {name for name, slash, _ in groups if slash}
    return names.pop() if len(names) == 1 and all(slash for _, slash, _ in groups) else ""


def _coin_record(text: str, name: str, group: str, *, annotated: bool) -> dict[str, Any]:
    """Return a canary's record: a document of its own, of a group of its own."""
    fields: dict[str, Any] = {"id": name, "text": text}
    if annotated:
        fields["pii"] = []
    return fields | ({"group": f"{group}/{name}"} if group else {})
