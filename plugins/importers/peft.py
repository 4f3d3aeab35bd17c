"""Adapters that PEFT saved, in folders of any names that hold the round's number.

`round_3/`, `epoch3/`, `lora-r16/round-3/global/`, `round_3/client_1/`, `client_1_round_3/`,
`round_3/clients/north/`: what is called like a client, or lies in a folder `clients`, is a
client's, and the number in the rest of the path is the round. FATE's `guest/9999/` and
`host/10000/` are clients' too: no name there says a round.
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

from .adapter_folders import CLIENTS, adapters, lost_clients, parent, unfinished

_ROLES = "guest|host|arbiter"
"""Folders in which FATE calls every folder by its party's number."""
_NUMBERED = f"client|site|party|silo|user|worker|hospital|bank|{_ROLES}"
CLIENT = re.compile(rf"(?:c|local|local_output|{_NUMBERED})[-_]?\d{{1,9}}", re.I)
CLIENT_INSIDE = re.compile(rf"(?<![a-z])(?:{_NUMBERED})[-_]?\d{{1,9}}(?!\d)", re.I)
"""A client in a longer name, such as `client_1_round_3`."""
GLOBAL = re.compile(r"(?:global|server|aggregated|average)(?:[-_]?(?:model|adapter))?", re.I)
ROUND_PATTERNS = [
    re.compile(rf"(?:{words})[-_ ]?(\d{{1,9}})", re.I)
    for words in ("round|rnd", "epoch|iteration|iter|step|checkpoint|ckpt")
]
"""Names of rounds; a step or an epoch beside a round is one within it."""
_GLOBAL_WORDS = frozenset({"global", "server", "aggregated", "average", "averaged"})
_PLAIN_WORDS = frozenset(
    {
        *("round", "rounds", "rnd", "epoch", "epochs", "iteration", "iter", "step", "checkpoint"),
        *("checkpoints", "ckpt", "adapter", "adapters", "lora", "peft", "model", "models"),
        *("weights", "output", "outputs", "out", "results", "run", "runs", "fl", "fed"),
        *("federated", "default", "initial", "init", "start", "final", "last", "best"),
    }
)
"""Words in the names of folders that say nothing of whose adapters are in them."""


@dataclass(frozen=True, slots=True)
class _AdapterFolder:
    """An adapter's folder: its round, and its client, "" for the global adapter."""

    name: str
    round: int
    client: str
    pattern: str = ""
    """If no word calls its number a round: its name with "#" for every number."""


@dataclass(frozen=True, kw_only=True)
class PeftFolders(Importer):
    """Read PEFT adapters, clients' too, in folders whose names hold a number."""

    name: ClassVar[str] = "peft"
    generic: ClassVar[bool] = True

    def runs(self, folder: ForeignFolder) -> Sequence[str]:
        """Return the folder itself where adapters below it are numbered."""
        return [""] if any(_adapter_folders(folder)) else []

    def read(self, run: ForeignFolder) -> ForeignFederation:
        """Return the rounds, with the adapters of clients where there are any."""
        global_folders: dict[int, str] = {}
        clients: dict[int, dict[str, str]] = defaultdict(dict)
        folders = list(_adapter_folders(run))
        for entry in folders:
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
        owners = _owners([entry for entry in folders if not entry.client], run)
        by_folder = adapters(run)
        rounds = [
            ForeignRound(
                round=number,
                adapter=by_folder[name],
                clients={client: by_folder[path] for client, path in clients[number].items()},
            )
            for number, name in sorted(global_folders.items())
        ]
        notes = lost_clients(clients, global_folders)
        remaining = sorted(set(by_folder) - {entry.name for entry in folders})
        notes += [f"{name or run.name} is left out: its name holds no round." for name in remaining]
        notes += unfinished(run)
        guessed = (e.name for e in folders if e.pattern and e.round in global_folders)
        if name := next(guessed, ""):
            notes.append(f"No word in {name} says that its number is a round: it is taken for one.")
        if owners:
            notes.append(
                f"Nothing in {global_folders[min(global_folders)]} says whose adapter it is: it is "
                "taken for the federation's global one, not for a client's."
            )
        if _is_one_pickled(by_folder):
            notes.append(
                f"{by_folder[''].weights} does not say its round: it is imported as round 1."
            )
        return ForeignFederation(rounds=rounds, notes=tuple(notes))


def _adapter_folders(folder: ForeignFolder) -> Iterator[_AdapterFolder]:
    """Yield the adapters whose names hold a round.

    Numbers that no word calls rounds may be of parties, ports or days: they are rounds only where
    the global adapters' names differ in nothing else.
    """
    by_folder = adapters(folder)
    if _is_one_pickled(by_folder):
        yield _AdapterFolder("", 1, "")
        return
    parents = [parent("/".join(_path_parts(name))) for name in by_folder]
    shared = commonpath(parents) if parents else ""
    numbered = [entry for name in by_folder if (entry := _parse_folder(name, shared))]
    patterns = {entry.pattern for entry in numbered if entry.pattern and not entry.client}
    yield from (entry for entry in numbered if not entry.pattern or len(patterns) < 2)


def _parse_folder(name: str, shared: str) -> _AdapterFolder | None:
    """Return an adapter's folder with its round, None where no number can be one.

    `shared` is what all names begin with.
    """
    segments = _path_parts(name)
    tail = "/".join(segments).removeprefix(shared).strip("/").split("/")
    client = _client(segments, tail)
    clean_parts = [
        _remove_client(client, above, segment) for above, segment in pairwise(["", *segments])
    ]
    clean_tail = clean_parts[-len(tail) :]
    for pattern in ROUND_PATTERNS:
        if len(numbers := [n for segment in clean_parts for n in pattern.findall(segment)]) == 1:
            return _AdapterFolder(name, int(numbers[0]), client)
    for path in (clean_tail, clean_parts):
        if len(numbers := _numbers(path)) == 1:
            return _AdapterFolder(name, int(numbers[0]), client, re.sub(r"\d+", "#", name))
    return None


def _path_parts(path: str) -> list[str]:
    """Return the parts of a path; a number below the word for a client belongs to the word."""
    segments: list[str] = []
    for segment in path.split("/"):
        if segments and (
            re.fullmatch(_ROLES, segments[-1], re.I)
            or CLIENT.fullmatch(f"{segments[-1]}_{segment}")
        ):
            segments[-1] += f"_{segment}"
        else:
            segments.append(segment)
    return segments


def _owners(folders: Sequence[_AdapterFolder], run: ForeignFolder) -> set[str]:
    """Return the words in global adapters' names that may be someone's name.

    Names of clients need not look like one (`alice/round_1`). Raises InputError where the words
    differ between the rounds, which are then not of one adapter.
    """
    words = {entry.name: _own_words(entry) for entry in folders}
    shared = set.intersection(*words.values()) if words else set()
    whole = {name for name in words if words[name] & _GLOBAL_WORDS}
    own = {name: set() if name in whole else words[name] - shared for name in words}
    first, *others = own or [""]
    if other := next((name for name in others if own[name] != own[first]), ""):
        raise InputError(
            f"{run.name} has adapters called {first} and {other}, and nothing says that both are "
            "global ones: call the global adapters' folders round_1/global and the like, and put "
            "those of each client into a folder with its name, in one called clients."
        )
    return set() if whole else set().union(*words.values())


def _own_words(entry: _AdapterFolder) -> set[str]:
    """Return the words in a name except those that any adapter's folder may have.

    A letter beside a number (`r16`) does not count as a word, nor does what stands beside a number
    that no word calls a round.
    """
    matches = (
        match
        for segment in entry.name.split("/")
        if not (entry.pattern and re.search(r"\d", segment))
        for match in re.finditer(r"\d*([^\W\d_]+)\d*", segment)
    )
    words = {match[1].lower() for match in matches if match[0] == match[1] or len(match[1]) > 1}
    return words - _PLAIN_WORDS


def _is_one_pickled(by_folder: Mapping[str, ForeignAdapter]) -> bool:
    """Tell whether there is one adapter only, and pickled: no command but an import reads it."""
    return by_folder.keys() == {""} and by_folder[""].weights.endswith(".bin")


def _client(segments: Sequence[str], tail: Sequence[str]) -> str:
    """Return the client that a path names, "" for none; `tail` is what tells it from others."""
    below = (segment for above, segment in pairwise(segments) if above.lower() == CLIENTS)
    inside = (match[0] for segment in tail if (match := CLIENT_INSIDE.search(segment)))
    return next(chain(filter(CLIENT.fullmatch, tail), below, inside), "")


def _remove_client(client: str, above: str, segment: str) -> str:
    """Return a part of a path, and not the number of a round, without the client's name in it."""
    whole = client == segment and (above.lower() == CLIENTS or CLIENT.fullmatch(segment))
    named = client and (whole or CLIENT_INSIDE.search(segment))
    return segment.replace(client, "/") if named else segment


def _numbers(segments: Sequence[str]) -> list[str]:
    """Return the numbers in the parts of a path that name neither a client nor the global one."""
    return [
        number
        for segment in segments
        if not GLOBAL.fullmatch(segment) and not CLIENT.fullmatch(segment)
        for number in re.findall(r"\d{1,9}", segment)
    ]
