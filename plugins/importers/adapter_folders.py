"""Folders that PEFT saved an adapter into, and those among them that are numbered by round."""

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


def parent(name: str) -> str:
    """Return the folder of a file or folder, "" for the top."""
    return "" if "/" not in name else name.rpartition("/")[0]


def below(folder: str, name: str) -> str:
    """Return the path of what lies in a folder, "" being the top."""
    return f"{folder}/{name}" if folder else name


def adapters(folder: ForeignFolder) -> dict[str, ForeignAdapter]:
    """Return the adapters that PEFT saved, each by the folder that it lies in."""
    known = set(folder.files)
    found = {}
    for name in folder.files:
        place = parent(name)
        if PurePosixPath(name).name == CONFIG:
            weights = (below(place, one) for one in WEIGHTS)
            if there := next((one for one in weights if one in known), None):
                found[place] = ForeignAdapter(weights=there, config=name)
    return found


def unfinished(folder: ForeignFolder, pattern: str) -> Iterator[str]:
    """Yield a sentence on each folder of that name in which there is no whole adapter."""
    whole = adapters(folder)
    for name in sorted({parent(one) for one in folder.files}):
        if "/" not in name and re.fullmatch(pattern, name) and name not in whole:
            yield f"{name} is left out: it has no {CONFIG} with {WEIGHTS[0]} or {WEIGHTS[1]}."


def once(numbered: Iterable[tuple[int, str]], run: ForeignFolder) -> dict[int, str]:
    """Return names by their round, in order; raises InputError where two have one."""
    found: dict[int, str] = {}
    for number, name in sorted(numbered):
        if number in found:
            raise InputError(
                f"{run.name} has two adapters of round {number}, {found[number]} and {name}: "
                "move one of them away."
            )
        found[number] = name
    return found


class NumberedFolders(Importer):
    """A layout of adapters in folders side by side, each with its round in its name."""

    pattern: ClassVar[str]
    """What such a folder is called; its last group that matches is the round."""

    @abstractmethod
    def holds(self, folder: ForeignFolder, place: str) -> bool:
        """Tell whether a folder of an adapter that is called like a round's is one."""

    def runs(self, folder: ForeignFolder) -> Sequence[str]:
        """Return the folders that hold such folders."""
        found = (
            place
            for place in adapters(folder)
            if re.fullmatch(self.pattern, PurePosixPath(place).name) and self.holds(folder, place)
        )
        return sorted({parent(place) for place in found})

    def rounds(self, run: ForeignFolder) -> Mapping[int, ForeignAdapter]:
        """Return the adapters in a run by round."""
        whole = adapters(run)
        matches = ((re.fullmatch(self.pattern, name), name) for name in whole)
        named = [
            (int(one[one.lastindex or 1]), name)
            for one, name in matches
            if one and self.holds(run, name)
        ]
        return {number: whole[name] for number, name in once(named, run).items()}

    def read(self, run: ForeignFolder) -> ForeignFederation:
        """Return a global adapter a round; nothing is known of clients."""
        others = [
            f"{name} is left out: it is not as {self.name} writes a round."
            for name in adapters(run)
            if re.fullmatch(self.pattern, name) and not self.holds(run, name)
        ]
        return ForeignFederation(
            rounds=[ForeignRound(round=n, adapter=one) for n, one in self.rounds(run).items()],
            notes=(*unfinished(run, self.pattern), *others),
        )
