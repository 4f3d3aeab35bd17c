"""What an importer is: it knows a layout that another framework leaves a federation in."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from fedaudit.api.plugin import Plugin
from fedaudit.api.templates import PromptTemplate


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDump:
    """What a file of torch.save or numpy.savez holds, told by a process that opened it."""

    keys: tuple[str, ...]
    """The names at its top; none in a file of arrays without names."""
    numbers: Mapping[str, int]
    """The whole numbers at its top, by name."""
    shapes: Mapping[str, tuple[int, ...]]
    """The tensors of its state, or its arrays, by the names that they have there, in order."""
    lora: bool
    """Whether there are LoRA weights among them."""
    ordered: bool
    """Whether it is arrays in an order, without names (`numpy.savez(path, *arrays)`)."""


class ForeignFolder(ABC):
    """A folder that is to be imported, as an importer sees it; links are not part of it."""

    name: str
    """The name of the folder itself."""
    files: tuple[str, ...]
    """The regular files below it, sorted, as paths with `/`."""

    @abstractmethod
    def read_json(self, name: str) -> Any:
        """Return what a JSON file holds; raises InputError for one that is not well-formed."""

    @abstractmethod
    def read_table(self, name: str) -> list[list[float]]:
        """Return the rows of a numeric .npy file of two dimensions; InputError for another."""

    @abstractmethod
    def look(self, name: str) -> StateDump:
        """Return what a file of torch.save or numpy.savez holds; no code of it runs here.

        Raises InputError for one that cannot be opened.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignAdapter:
    """Where an adapter is, below the folder: files, as `ForeignFolder.files` has them."""

    weights: str
    """In safetensors, or a file of torch.save or numpy.savez."""
    config: str = ""
    """Its adapter_config.json; empty where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignRound:
    """What a round left behind."""

    round: int
    adapter: ForeignAdapter
    """The global adapter after it."""
    clients: Mapping[str, ForeignAdapter] = field(default_factory=dict)
    """The adapters of clients as they sent them, by client, where they were kept."""
    participants: tuple[str, ...] = ()
    """Who took part; those of `clients` where nothing is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignFederation:
    """What an importer has found in a folder; nothing in it is guessed."""

    rounds: Sequence[ForeignRound]
    """Those that were kept, in order; rounds may be missing."""
    base: str = ""
    """The base, where another file than the adapters' configurations names it."""
    aggregation: str = "fedavg"
    """The server's rule, by the name of its plugin."""
    template: PromptTemplate | None = None
    """How this framework renders a record; None where that is anybody's choice."""
    notes: tuple[str, ...] = ()
    """What the user must know: what was left out, what the layout does not say."""


class Importer(Plugin, ABC):
    """Knows one layout by its files and says where its rounds, clients and adapters are."""

    generic: ClassVar[bool] = False
    """Whether it knows a layout by so little that any other importer goes before it."""

    @abstractmethod
    def runs(self, folder: ForeignFolder) -> Sequence[str]:
        """Return the folders below `folder` that hold a run of this layout; "" is itself."""

    @abstractmethod
    def read(self, run: ForeignFolder) -> ForeignFederation:
        """Return what is in one of these folders."""
