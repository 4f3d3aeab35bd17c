"""Folders that PEFT saved an adapter into, and those among them that are numbered by round."""

import re
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import ClassVar

from fedaudit.api import (
    ForeignAdapter,
    ForeignFederation,
    ForeignFolder,
    ForeignRound,
    Importer,
    InputError,
)

CONFIG, STATE = "adapter_config.json", "trainer_state.json"
WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
"""What PEFT saves; the first that is there counts, as it does for PEFT."""
CLIENTS = "clients"
"""A folder in which every folder is called as its client is."""
PART = "adapter_"
"""What the names of an adapter's files begin with, whole or not."""


def parent(name: str) -> str:
    """Return the folder of a file or folder, "" for the top."""
    return name.rpartition("/")[0]


def below(folder: str, name: str) -> str:
    """Return the path of what lies in a folder, "" being the top."""
    return f"{folder}/{name}" if folder else name


def adapters(folder: ForeignFolder) -> dict[str, ForeignAdapter]:
    """Return the adapters that PEFT saved, each by the folder that it lies in."""
    files = set(folder.files)
    by_folder = {}
    for name in folder.files:
        path = parent(name)
        if PurePosixPath(name).name == CONFIG:
            weights = (below(path, file) for file in WEIGHTS)
            if weights_file := next((file for file in weights if file in files), None):
                by_folder[path] = ForeignAdapter(weights=weights_file, config=name)
    return by_folder


def unfinished(folder: ForeignFolder, pattern: str = "") -> Iterator[str]:
    """Yield a sentence on each folder that was meant for an adapter but has no complete one.

    These are the folders at the top that match `pattern`; without one, those that hold a part of an
    adapter or are called as adapters' folders are, but for numbers.
    """
    by_folder = adapters(folder)
    names = {_shape(name) for name in by_folder}
    parts = {parent(file) for file in folder.files if PurePosixPath(file).name.startswith(PART)}
    for name in sorted({parent(file) for file in folder.files} - by_folder.keys()):
        if pattern:
            meant = "/" not in name and bool(re.fullmatch(pattern, name))
        else:
            meant = name in parts or _shape(name) in names
        if meant:
            yield (
                f"{name or folder.name} is left out: it has no {CONFIG} with {WEIGHTS[0]} or "
                f"{WEIGHTS[1]}."
            )


def _shape(name: str) -> str:
    return re.sub(r"\d+", "#", name)


def unique_rounds(numbered: Iterable[tuple[int, str]], run: ForeignFolder) -> dict[int, str]:
    """Return names by their round, in order; raises InputError where two have the same."""
    names: dict[int, str] = {}
    for number, name in sorted(numbered):
        if number in names:
            raise InputError(
                f"{run.name} has two adapters of round {number}, {names[number]} and {name}: "
                "move one of them away."
            )
        names[number] = name
    return names


def lost_clients(clients: Iterable[int], rounds: Collection[int]) -> list[str]:
    """Return a sentence on each round that has clients' adapters and is none of `rounds`."""
    return [
        f"Clients' adapters of round {number} are left out: there is no global one."
        for number in sorted(clients)
        if number not in rounds
    ]


class NumberedFolders(Importer):
    """A layout of adapters in folders side by side, each with its round in its name."""

    pattern: ClassVar[str]
    """What such a folder is called; its last group that matches is the round."""

    @abstractmethod
    def holds(self, folder: ForeignFolder, path: str) -> bool:
        """Return whether an adapter's folder, whose name matches, is a round of this layout."""

    def runs(self, folder: ForeignFolder) -> Sequence[str]:
        """Return the folders that contain rounds' folders."""
        paths = (
            path
            for path in adapters(folder)
            if re.fullmatch(self.pattern, PurePosixPath(path).name) and self.holds(folder, path)
        )
        return sorted({parent(path) for path in paths})

    def rounds(self, run: ForeignFolder) -> Mapping[int, ForeignAdapter]:
        """Return the adapters in a run by round."""
        by_folder = adapters(run)
        matches = ((re.fullmatch(self.pattern, name), name) for name in by_folder)
        named = [
            (int(match[match.lastindex or 1]), name)
            for match, name in matches
            if match and self.holds(run, name)
        ]
        return {number: by_folder[name] for number, name in unique_rounds(named, run).items()}

    def read(self, run: ForeignFolder) -> ForeignFederation:
        """Return a global adapter a round; nothing is known of clients."""
        notes = [
            f"{name} is left out: {self.name} writes rounds in another form."
            for name in adapters(run)
            if re.fullmatch(self.pattern, name) and not self.holds(run, name)
        ]
        return ForeignFederation(
            rounds=[
                ForeignRound(round=n, adapter=adapter) for n, adapter in self.rounds(run).items()
            ],
            notes=(*unfinished(run, self.pattern), *notes),
        )
