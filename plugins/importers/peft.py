"""Adapters that PEFT saved, in folders of any names that hold the round's number.

`round_3/`, `epoch3/`, `lora-r16/round-3/global/`, `round_3/client_1/`: a part of the path that is
called like a client is one, and the number in what is left is the round.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os.path import commonpath
from typing import ClassVar

from fedaudit.api import (
    ForeignFederation,
    ForeignFolder,
    ForeignRound,
    Importer,
    InputError,
)

from .adapter_folders import adapters, parent

CLIENT = re.compile(
    r"(?:c|client|site|party|silo|user|worker|hospital|bank|local|local_output)[-_]?\d{1,9}", re.I
)
GLOBAL = re.compile(r"(?:global|server|aggregated|average)(?:[-_]?(?:model|adapter))?", re.I)
NAMED = re.compile(r"(?:round|rnd|epoch|iteration|iter|step|checkpoint|ckpt)[-_ ]?(\d{1,9})", re.I)


@dataclass(frozen=True, slots=True)
class _Place:
    """An adapter's folder: its round, and its client, "" for the global adapter."""

    name: str
    round: int
    client: str


@dataclass(frozen=True, kw_only=True)
class PeftFolders(Importer):
    """Read adapters of PEFT in folders whose names hold a number, clients' too."""

    name: ClassVar[str] = "peft"
    generic: ClassVar[bool] = True

    def runs(self, folder: ForeignFolder) -> Sequence[str]:
        """Return the folder itself where adapters below it are numbered."""
        return [""] if any(_places(folder)) else []

    def read(self, run: ForeignFolder) -> ForeignFederation:
        """Return the rounds, with the adapters of clients where there are any."""
        whole: dict[int, str] = {}
        clients: dict[int, dict[str, str]] = defaultdict(dict)
        for one in _places(run):
            there = clients[one.round].get(one.client) if one.client else whole.get(one.round)
            if there is not None:
                raise InputError(
                    f"{run.name} has two adapters of round {one.round}, {there} and {one.name}: "
                    "import one of the folders that they lie in, or move one of them away."
                )
            if one.client:
                clients[one.round][one.client] = one.name
            else:
                whole[one.round] = one.name
        known = adapters(run)
        rounds = [
            ForeignRound(
                round=number,
                adapter=known[name],
                clients={who: known[own] for who, own in clients[number].items()},
            )
            for number, name in sorted(whole.items())
        ]
        lost = sorted(number for number in clients if number not in whole)
        notes = [
            f"Clients' adapters of round {n} are left out: there is no global one." for n in lost
        ]
        left = sorted(set(known) - {one.name for one in _places(run)})
        notes += [f"{name or run.name} is left out: its name holds no round." for name in left]
        return ForeignFederation(rounds=rounds, notes=tuple(notes))


def _places(folder: ForeignFolder) -> Iterator[_Place]:
    """Yield the adapters whose round their names say."""
    found = adapters(folder)
    shared = commonpath([parent(name) for name in found]) if found else ""
    for name in found:
        parts, own = name.split("/"), name.removeprefix(shared).strip("/").split("/")
        client = next((part for part in own if CLIENT.fullmatch(part)), "")
        tries = (
            [number for part in parts for number in NAMED.findall(part)],
            [number for part in _rest(own, client) for number in re.findall(r"\d{1,9}", part)],
            [number for part in _rest(parts, client) for number in re.findall(r"\d{1,9}", part)],
        )
        if number := next((one[0] for one in tries if len(one) == 1), ""):
            yield _Place(name, int(number), client)


def _rest(parts: Sequence[str], client: str) -> list[str]:
    return [part for part in parts if part != client and not GLOBAL.fullmatch(part)]
