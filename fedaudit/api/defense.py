"""What a defence is: its stages from a client's documents to how the deployed model answers."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from fedaudit.api.contract import Contract, ensures
from fedaudit.api.engine import Engine, ModelEngine
from fedaudit.api.errors import UsageError
from fedaudit.api.plugin import Aggregator, Plugin, Result, Update
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Document, GatedRequest, RoutedRequest
from fedaudit.api.templates import PromptTemplate

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, kw_only=True)
class TrainingSession:
    """One client's training of one round, for a defence that takes it over."""

    model: "torch.nn.Module"
    """The base with one trainable adapter; calling it with labels gives a mean token loss."""
    weights: Mapping[str, "torch.nn.Parameter"]
    """What is trained, by its PEFT names."""
    sequences: Sequence[Sequence[int]]
    """The client's documents as token ids; nothing is padded yet."""
    batch_size: int
    """Sequences an optimizer step, accumulation included."""
    steps: int
    """Optimizer steps of this round; every round has as many."""
    rounds: int
    rate: Callable[[int], float]
    """The learning rate of each of the round's steps."""
    weight_decay: float
    clip: float
    seed: int
    """Follows from the run's seed, the round and the client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedClient:
    """One client in one round once its shared adapter is trained, for a defence that goes on.

    Folders of adapters can be asked: `Target(name=..., adapter=str(folder))`.
    """

    engine: Engine
    """Of the base."""
    template: PromptTemplate
    documents: Sequence[Document]
    """What the shared adapter was trained on."""
    start: Path
    """The global adapter that the round began with."""
    trained: Path
    """The shared adapter that training made of it; no server has seen it yet."""
    folder: Path
    """Where to write what is to be known of this turn later; it never leaves the client."""
    max_length: int
    """Tokens that a document is cut to in training."""
    round: int
    seed: int
    """Follows from the run's seed, the round and the client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientState:
    """A client at the end of a federation; folders are adapters on disk."""

    documents: Sequence[Document]
    """Its own, as they are."""
    prepared: Sequence[Document]
    """What the shared adapter was trained on."""
    shared: Path
    """The adapter that it sent in the last round that it took part in; where secure aggregation
    keeps none, the global one of that round."""
    private: Mapping[str, Path]
    """Its adapters that never left it, by the names that `Defense.private` gave."""
    rounds: int
    """How many rounds it took part in."""
    steps: int
    """Optimizer steps of the shared adapter in each of them."""
    turns: Mapping[int, Path] = field(default_factory=dict)
    """The folder of its turn in each of them, where a defence goes on after training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedFederation:
    """A federation after its last round, for a defence to account for and to deploy from."""

    engine: ModelEngine
    """Of the base."""
    folder: Path
    """Where to write what is deployed, in a folder of its own for each client."""
    adapter: Path
    """The last global adapter."""
    parties: Mapping[str, ClientState]
    batch_size: int
    """Sequences an optimizer step, accumulation included."""
    rounds: int
    max_length: int
    """Tokens that a document was cut to."""
    seed: int
    progress: Callable[[str], Progress] = field(default=lambda title: no_progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedClient:
    """One client's part of what a defence deployed."""

    engine: ModelEngine
    """Of the base."""
    folder: Path
    """The folder that holds one folder for each client."""
    client: str
    seed: int = 0


def _one_each(_: object, result: list[object], asked: Sequence[object], **__: object) -> str:
    """Say where there are fewer or more results than were asked for."""
    return "" if len(result) == len(asked) else f"{len(result)} results in place of {len(asked)}"


class Responder(Contract, ABC):
    """How a deployed model answers: by which adapter, and to what is left of the prompt."""

    @abstractmethod
    @ensures(_one_each)
    def route(self, requests: Sequence[GatedRequest]) -> list[RoutedRequest]:
        """Return for each request the adapter that answers it and the prompt that it gets."""

    @abstractmethod
    def headings(self) -> Mapping[str, str]:
        """Return what requests begin with by who asks: "right", "wrong", "none" or "other" keys.

        Where there are several right keys they are "right:NAME". The values are secrets.
        """


class KeyedResponder(Responder):
    """A responder that chooses the adapter by a key, for an attack on that choice."""

    secrets: tuple[str, ...]
    """The valid keys."""
    foreign: tuple[str, ...]
    """Valid keys of other organisations, as far as the auditor has them."""

    @abstractmethod
    def heading(self, key: str) -> str:
        """Return what a request begins with to show `key`."""

    @abstractmethod
    @ensures(_one_each)
    def opens(self, keys: Sequence[str], *, atomic: bool) -> list[str]:
        """Return the name of the adapter that each of `keys` opens, as `Routed.name` has it.

        Atomic: as if the private tokenizer had each as a token of its own, valid or not. Otherwise
        each is spelled in the public tokenizer's tokens, valid or not.
        """


KeyChange = Literal["rotate", "add", "revoke"]


class Defense(Plugin):
    """What a federation does against leaks; every stage that is not overridden changes nothing.

    In the order in which the stages come: `prepare` and `private` once, `train`, `auxiliary_data`
    and `upload` at each client in each round, `server` at the server, `deploy` after the last
    round, `responder` whenever the deployed model is asked.
    """

    needs_annotation: ClassVar[bool] = False
    """Whether `prepare` or `private` must know where the PII is."""

    @property
    def auxiliary_adapters(self) -> tuple[str, ...]:
        """The names of the adapters that `auxiliary_data` is for."""
        return ()

    def check(self, template: PromptTemplate) -> None:
        """Raise UsageError for a prompt template that the defence cannot work with."""

    def prepare(self, documents: Sequence[Document]) -> list[Document]:
        """Return what a client trains the shared adapter on in place of its documents."""
        return list(documents)

    def private(self, documents: Sequence[Document]) -> Mapping[str, list[Document]]:
        """Return the documents of further adapters, which a client trains and never sends.

        `documents` are the client's own, not prepared by anybody. Each adapter starts from the
        federation's initial one and is trained in every round that the client takes part in.
        """
        return {}

    def train(self, session: TrainingSession) -> float | None:
        """Train the shared adapter in place of the ordinary steps and return the mean loss.

        None, with nothing changed, leaves it to the ordinary steps.
        """
        return None

    def auxiliary_data(self, turn: TrainedClient) -> Mapping[str, Sequence[Document]]:
        """Return what a client trains each of its `auxiliary_adapters` on in this round.

        It is asked once the shared adapter is trained. Each further adapter then starts from the
        round's global one, is trained in the ordinary steps, and goes to `upload` under its name;
        without documents it stays what it started as. The client keeps all of them, the shared
        adapter as it was trained too: only what `upload` returns leaves it.
        """
        return {}

    def upload(self, start: Update, trained: Update, private: Mapping[str, Update]) -> Update:
        """Return what a client sends to the server for what it `trained` from `start`.

        `private` has its private and its further adapters by name.
        """
        return trained

    def server(self, aggregator: Aggregator) -> Aggregator:
        """Return the server's rule in place of the one that the federation was set to."""
        return aggregator

    def deploy(self, finished: FinishedFederation) -> Result:
        """Write what is deployed into `finished.folder`; return what it costs and guarantees."""
        return Result()

    def responder(self, deployed: DeployedClient) -> Responder | None:
        """Return how the deployed model answers; None where the global adapter just answers."""
        return None

    def rekey(
        self, deployed: DeployedClient, change: KeyChange, name: str, adapter: str = ""
    ) -> None:
        """Change the key called `name`; no adapter changes. Raises UsageError without keys."""
        raise UsageError(f"The defence {self.name} has no keys.")
