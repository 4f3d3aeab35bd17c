"""Adapters that PEFT saved, in folders of any names that hold the round's number.

`round_3/`, `epoch3/`, `lora-r16/round-3/global/`, `round_3/client_1/`, `client_1_round_3/`,
`round_3/clients/north/`: what is called like a client, or lies in a folder `clients`, is a
client's, and the number in the rest of the path is the round.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from os.path import commonpath
from typing import ClassVar

from fedaudit.api import (
    ForeignAdapter,
    ForeignFederation,
    ForeignFolder,
    ForeignRound,
    Importer,
    InputError,
)

from .adapter_folders import adapters, parent

_NUMBERED = "client|site|party|silo|user|worker|hospital|bank"
CLIENT = re.compile(rf"(?:c|local|local_output|{_NUMBERED})[-_]?\d{{1,9}}", re.I)
CLIENT_INSIDE = re.compile(rf"(?<![a-z])(?:{_NUMBERED})[-_]?\d{{1,9}}(?!\d)", re.I)
"""A client in a longer name, such as `client_1_round_3`."""
CLIENTS = "clients"
"""A folder in which every folder is called as its client is."""
GLOBAL = re.compile(r"(?:global|server|aggregated|average)(?:[-_]?(?:model|adapter))?", re.I)
ROUND_PATTERNS = [
    re.compile(rf"(?:{words})[-_ ]?(\d{{1,9}})", re.I)
    for words in ("round|rnd", "epoch|iteration|iter|step|checkpoint|ckpt")
]
"""Names of rounds; a step or an epoch beside a round is one within it."""


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
                    f"{entry.name}: import one of the folders that they lie in, or move one of "
                    "them away. Clients' folders are called client_1 and the like, or lie in one "
                    "called clients."
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
        if _is_one_pickled(by_folder):
            notes.append(f"{by_folder[''].weights} does not say its round: it is round 1 here.")
        return ForeignFederation(rounds=rounds, notes=tuple(notes))


def _adapter_folders(folder: ForeignFolder) -> Iterator[_AdapterFolder]:
    """Yield the adapters whose names hold a round."""
    by_folder = adapters(folder)
    if _is_one_pickled(by_folder):
        yield _AdapterFolder("", 1, "")
        return
    shared = commonpath([parent(name) for name in by_folder]) if by_folder else ""
    for name in by_folder:
        parts, tail = name.split("/"), name.removeprefix(shared).strip("/").split("/")
        client = _client(parts, tail)
        every, rest = ([_without(client, part) for part in some] for some in (parts, tail))
        tries = (
            *([n for part in every for n in named.findall(part)] for named in ROUND_PATTERNS),
            _numbers(rest),
            _numbers(every),
        )
        if number := next((numbers[0] for numbers in tries if len(numbers) == 1), ""):
            yield _AdapterFolder(name, int(number), client)


def _is_one_pickled(by_folder: Mapping[str, ForeignAdapter]) -> bool:
    """Tell whether there is one adapter only, and pickled: no command but an import reads it."""
    return by_folder.keys() == {""} and by_folder[""].weights.endswith(".bin")


def _client(parts: Sequence[str], tail: Sequence[str]) -> str:
    """Return the client that a path names, "" for none; `tail` is what tells it from others."""
    below = (part for above, part in pairwise(parts) if above.lower() == CLIENTS)
    inside = (match[0] for part in tail if (match := CLIENT_INSIDE.search(part)))
    return next(chain(filter(CLIENT.fullmatch, tail), below, inside), "")


def _without(client: str, part: str) -> str:
    """Return a part of a path without the client's name in it."""
    return part.replace(client, "/") if client == part or CLIENT_INSIDE.search(part) else part


def _numbers(parts: Sequence[str]) -> list[str]:
    """Return the numbers in the parts of a path that do not name the global adapter."""
    return [
        number
        for part in parts
        if not GLOBAL.fullmatch(part)
        for number in re.findall(r"\d{1,9}", part)
    ]
