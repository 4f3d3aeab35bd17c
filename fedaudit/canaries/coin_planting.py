"""A client's records with those canaries among them that the coins put in."""

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.templates import template
from fedaudit.canaries import coin_file
from fedaudit.canaries.planting_plan import PlantedRecords, new_id
from fedaudit.data import corpus, tables
from fedaudit.system.files import check_free


@dataclass(frozen=True, slots=True, kw_only=True)
class CoinPlantRequest:
    """A client's records, and where they go with its canaries."""

    coins: Path
    records: Path
    out: Path
    client: str = ""
    """Whose records they are; empty where nobody says."""
    template: str = "fed_pii"
    seed: int | None = None
    """Whoever knows it knows which places the canaries got; None draws what nobody can guess."""


def plant(request: CoinPlantRequest) -> PlantedRecords:
    """Write a client's records, and each canary that is in once, shuffled, into a new file.

    Raises InputError if the output file exists or records already hold a canary, and UsageError for
    another client's records.
    """
    coins = coin_file.read(request.coins)
    if request.client and request.client != coins.client:
        raise UsageError(f"{request.coins.name} is for {coins.client}, not for {request.client}.")
    check_free(request.out, "the records")
    if tables.is_table(request.out) or tables.is_table(request.records):
        raise InputError(
            f"{request.records} or {request.out} is a table, and canaries are planted in JSONL: "
            "convert the records first."
        )
    unread: Counter[str] = Counter()
    records = list(corpus.read_records(request.records, template(request.template), unread))
    texts = Counter(record.document.text for record in records)
    if count := sum(canary.text in texts for canary in coins.canaries):
        raise InputError(f"{request.records} holds {count:,} of the canaries already.")
    rng = random.SystemRandom() if request.seed is None else random.Random(f"plant {request.seed}")
    ids = {record.document.id for record in records}
    annotated = all(record.document.pii is not None for record in records)
    group = _corpus({record.document.group.partition("/") for record in records})
    planted = [
        _record(canary.text, new_id(ids, rng), group, annotated=annotated)
        for canary in coins.canaries
        if canary.included
    ]
    mixed = [*(record.fields for record in records), *planted]
    rng.shuffle(mixed)
    corpus.write_fields(request.out, mixed, array=corpus.is_array(request.records))
    empty = corpus.empty_caveat(request.records, unread)
    return PlantedRecords(len(mixed), len(planted), len(planted), empty)


def _corpus(groups: set[tuple[str, str, str]]) -> str:
    """Return the corpus that all groups are of, so that a simulation deals canaries with it."""
    names = {name for name, slash, _ in groups if slash}
    return names.pop() if len(names) == 1 and all(slash for _, slash, _ in groups) else ""


def _record(text: str, name: str, group: str, *, annotated: bool) -> dict[str, Any]:
    """Return a canary's record: a document of its own, of a group of its own."""
    fields: dict[str, Any] = {"id": name, "text": text}
    if annotated:
        fields["pii"] = []
    return fields | ({"group": f"{group}/{name}"} if group else {})
