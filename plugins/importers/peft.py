"""Adapters that PEFT saved, in folders of any names that hold the round's number.

`round_3/`, `epoch3/`, `lora-r16/round-3/global/`, `round_3/client_1/`: a part of the path that is
named like a client is the client, and the number in the other parts is the round.
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
ROUND_PATTERN = re.compile(
    r"(?:round|rnd|epoch|iteration|iter|step|checkpoint|ckpt)[-_ ]?(\d{1,9})", re.I
)


@dataclass(frozen=True, slots=True)
class _AdapterFolder:
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
        return [""] if any(_adapter_folders(folder)) else []

    def read(self, run: ForeignFolder) -> ForeignFederation:
        """Return the rounds, with the adapters of clients where there are any."""
        global_folders: dict[int, str] = {}
        clients: dict[int, dict[str, str]] = defaultdict(dict)
        for entry in _adapter_folders(run):
            existing = (
                clients[entry.round].get(entry.client)
                if entry.client
                else global_folders.get(entry.round)
            )
            if existing is not None:
                raise InputError(
                    f"{run.name} has two adapters of round {entry.round}, {existing} and "
                    f"{entry.name}: "
                    "import one of the folders that they lie in, or move one of them away."
                )
            if entry.client:
                clients[entry.round][entry.client] = entry.name
            else:
                global_folders[entry.round] = entry.name
        by_folder = adapters(run)
        rounds = [
            ForeignRound(
                round=number,
                adapter=by_folder[name],
                clients={client: by_folder[path] for client, path in clients[number].items()},
            )
            for number, name in sorted(global_folders.items())
        ]
        lost = sorted(number for number in clients if number not in global_folders)
        notes = [
            f"Clients' adapters of round {n} are left out: there is no global one." for n in lost
        ]
        remaining = sorted(set(by_folder) - {entry.name for entry in _adapter_folders(run)})
        notes += [f"{name or run.name} is left out: its name holds no round." for name in remaining]
        return ForeignFederation(rounds=rounds, notes=tuple(notes))


def _adapter_folders(folder: ForeignFolder) -> Iterator[_AdapterFolder]:
    """Yield the adapters whose names hold a round."""
    by_folder = adapters(folder)
    shared = commonpath([parent(name) for name in by_folder]) if by_folder else ""
    for name in by_folder:
        parts, tail = name.split("/"), name.removeprefix(shared).strip("/").split("/")
        client = next((part for part in tail if CLIENT.fullmatch(part)), "")
        tries = (
            [number for part in parts for number in ROUND_PATTERN.findall(part)],
            [
                number
                for part in _other_parts(tail, client)
                for number in re.findall(r"\d{1,9}", part)
            ],
            [
                number
                for part in _other_parts(parts, client)
                for number in re.findall(r"\d{1,9}", part)
            ],
        )
        if number := next((numbers[0] for numbers in tries if len(numbers) == 1), ""):
            yield _AdapterFolder(name, int(number), client)


def _other_parts(parts: Sequence[str], client: str) -> list[str]:
    return [part for part in parts if part != client and not GLOBAL.fullmatch(part)]
