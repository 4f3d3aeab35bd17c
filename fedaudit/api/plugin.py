"""What a plugin is, and what it may ask of the core.

A plugin is a frozen dataclass: its fields are its options, its docstring's first line its help.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from fedaudit.api.abilities import Ability
from fedaudit.api.contract import Contract, ensures
from fedaudit.api.cost import Cost, Counts
from fedaudit.api.engine import Engine
from fedaudit.api.kind import Kind
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import (
    ClientModel,
    Document,
    Finding,
    Measurement,
    PiiSpan,
    PromptStart,
    ReferenceModel,
    Target,
)
from fedaudit.api.templates import PromptTemplate

if TYPE_CHECKING:
    import torch

Update = Mapping[str, "torch.Tensor"]
"""A LoRA adapter's tensors by their PEFT names; A and B apart, not their product."""

State = Mapping[str, Update]
"""What a server keeps from round to round, by name: its momentum, for example."""


@dataclass(frozen=True, slots=True)
class UpTo:
    """The bound of an option's number, either way from 0: `seed: Annotated[int, UpTo(2**32)]`.

    Without one, a whole number is 1,000,000 at most and another number 1e9.
    """

    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundUpdate:
    """What became of a round's start in the hands of some clients, as far as it can be seen.

    That is a client's adapter, the sum of several clients' changes that secure aggregation gave to
    the server, or the global adapter, a mean over the participants that every member receives.
    """

    view: Literal["client", "sum", "global"]
    round: int
    members: tuple[str, ...]
    read: Callable[[], Update]
    """Return tensors by their PEFT names: for a sum the summed change, else the adapter's."""
    documents: Sequence[Document]
    """What the members trained on, as far as it is at hand."""

    @property
    def name(self) -> str:
        """The members, joined with a plus sign."""
        return "+".join(self.members)


@dataclass(frozen=True, kw_only=True)
class AttackContext:
    """What an attack is given: an engine, a model and its base, and one client's own data."""

    engine: Engine
    tuned: Target
    base: Target | None
    attacker: Sequence[Document]
    victim: Sequence[Document] | None
    members: Mapping[str, Sequence[Document]] = field(default_factory=dict)
    control: Sequence[Document] = ()
    """Documents that no member has; in `members`, those of other members that the auditor has."""
    held_out: Sequence[Document] | None = None
    """Records like the victim's that were never trained on: what skill alone gives away."""
    related: bool = False
    """Whether training saw other documents of the groups that `held_out` are of."""
    counterfactual: Target | None = None
    """The model that was trained without the client whose records are tried."""
    without: str = ""
    """That client's name."""
    clients: Mapping[str, ClientModel] = field(default_factory=dict)
    """The clients' own models in the round of `tuned`, for an attack that `reads_clients`."""
    updates: Sequence[RoundUpdate] = ()
    """What the round of `tuned` shows of clients' training, for an attack that `reads_updates`."""
    references: Sequence[ReferenceModel] = ()
    """Models that others trained alike, on other records, for an attack that `reads_references`."""
    rounds: Mapping[int, Target] = field(default_factory=dict)
    """The global models of rounds before that of `tuned`, for an attack that `reads_rounds`."""
    took_part: Mapping[int, bool] = field(default_factory=dict)
    """Whether the client whose records are tried trained in each of `rounds`, and in that of
    `tuned`, the last; empty where it trained in all of them, or it is not known."""
    trained_tokens: int = 0
    """How many tokens of a text training read, its start included; 0 where it is not known."""
    seed: int = 0
    beginning: PromptStart = field(default_factory=PromptStart)
    template: PromptTemplate | None = None
    """How instruction records were written as text, so that a new request can be written alike."""
    detector: "PiiDetector | None" = None
    """What finds PII in text that the model writes."""
    progress: Callable[[str], Progress] = field(default=lambda title: no_progress)

    @property
    def attacked_documents(self) -> Sequence[Document]:
        """The victim's documents, or the attacker's own without a victim."""
        return self.attacker if self.victim is None else self.victim

    def with_start(self, prompt: Sequence[int], *, at_start: bool) -> tuple[int, ...]:
        """Return `prompt` behind the start that the target expects there."""
        name = self.beginning.start if at_start else self.beginning.middle
        return (*self.engine.prompt_starts[name], *prompt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What an attack found out: numbers, leaks, and what it cannot tell."""

    measurements: tuple[Measurement, ...] = ()
    findings: tuple[Finding, ...] = ()
    limits: tuple[str, ...] = ()
    revealed: tuple[Mapping[str, str], ...] = ()
    """Plain text of the findings, by id; written only to the 0600 file of --reveal."""


class Plugin(Contract):
    """What every plugin has: a name, and the paper it comes from."""

    name: ClassVar[str]
    paper: ClassVar[str] = ""


class Attack(Plugin, ABC):
    """Tries to get private data out of a model."""

    kinds: ClassVar[tuple[type[Kind], ...]] = ()
    """The kinds of measurements that it brings itself, besides those of fedaudit."""
    once: ClassVar[bool] = False
    """Whether it brings its own keys: it is then run once, not under every kind of key."""
    compares: ClassVar[bool] = False
    """Whether it compares what it finds with `held_out`: records that no training saw."""
    asks_held_out: ClassVar[bool] = False
    """Whether it asks the requests of `held_out`."""
    reads_clients: ClassVar[bool] = False
    """Whether it asks the `clients`' own models, which the server alone sees."""
    reads_updates: ClassVar[bool] = False
    """Whether it inverts the `updates` of clients in a round, or sums of them."""
    reads_references: ClassVar[bool] = False
    """Whether it compares with the models of reference federations."""
    reads_rounds: ClassVar[bool] = False
    """Whether it asks the global models of earlier `rounds`, where they are at hand."""

    @property
    def needs(self) -> frozenset[Ability]:
        """What it asks of an engine; where one lacks some of it, the attack is skipped.

        What is not declared is found out when it is asked for.
        """
        return frozenset()

    def cost(self, counts: Counts) -> Cost:
        """Return what it will ask of a model; unless it says so, that is not known before."""
        return Cost(unknown=(self.name,))

    @abstractmethod
    def run(self, context: AttackContext) -> Result:
        """Attack `context.tuned` and measure what came out."""


def _like_start(
    plugin: "Aggregator",
    result: Update | tuple[Update, object],
    start: Update,
    *_: object,
    **__: object,
) -> str:
    """Say how a global adapter differs in form from the one that it takes the place of."""
    made = result[0] if isinstance(result, tuple) else result
    if made.keys() != start.keys():
        return "tensors of other names than the adapter has"
    if plugin.merges_each_round:
        return ""
    other = [name for name in start if tuple(made[name].shape) != tuple(start[name].shape)]
    return f"another shape of {other[0]} than the adapter has" if other else ""


def _spans_of_texts(_: object, result: "list[tuple[PiiSpan, ...]]", texts: Sequence[str]) -> str:
    """Say which spans are none of their texts."""
    if len(result) != len(texts):
        return f"the spans of {len(result)} texts in place of {len(texts)}"
    for spans, text in zip(result, texts, strict=True):
        end = 0
        for span in spans:
            if not end <= span.start < span.end <= len(text):
                return "spans that are empty, overlap, lack order or leave their text"
            if not span.label:
                return "a span without a label"
            end = span.end
    return ""


def _chances(_: object, result: list[float], pairs: Sequence[tuple[str, str]]) -> str:
    """Say where the chances of pairs are too few or none."""
    if len(result) != len(pairs):
        return f"{len(result)} scores in place of {len(pairs)}"
    return "" if all(0 <= one <= 1 for one in result) else "a score that is not from 0 to 1"


class Aggregator(Plugin, ABC):
    """How the server makes one adapter of the clients', and what it asks of their training."""

    merges_each_round: ClassVar[bool] = False
    """Whether the global adapter is merged into the base each round, on which the clients then
    train the initial adapter again; otherwise they go on from the global adapter itself."""
    stateful_clients: ClassVar[bool] = False
    """Whether a client keeps a state of its own from round to round, for `correction`,
    `client_state` and `collect_states`. Such a state is a second message to the server."""

    @abstractmethod
    @ensures(_like_start)
    def aggregate(
        self, start: Update, updates: Sequence[Update], weights: Sequence[float]
    ) -> Update:
        """Return the next global adapter from the clients' adapters of a round.

        `weights` are the clients' example counts; `start` is the adapter they all began with.
        The result must not depend on the order of the clients beyond float rounding.
        """

    @ensures(_like_start)
    def step(
        self, start: Update, updates: Sequence[Update], weights: Sequence[float], state: State
    ) -> tuple[Update, State]:
        """Return the next global adapter and the server's state for its next round.

        `state` is empty in the first round. It is kept in the federation's folder, so that a run
        resumes with it. A rule without memory only has `aggregate`.
        """
        return self.aggregate(start, updates, weights), {}

    def difference(self, start: Update, trained: Update) -> Update:
        """Return a client's update: what secure aggregation adds up, and what tells clients apart.

        `start` is the global adapter of the round and `trained` the client's. By default it is the
        difference of their tensors, A and B apart.
        """
        return {name: trained[name].float() - start[name].float() for name in trained}

    @ensures(_like_start)
    def moved(self, start: Update, update: Update) -> Update:
        """Return the global adapter `start` after `update`, in its own form and scaling."""
        return {name: start[name].float() + update[name] for name in start}

    def penalty(self, start: Update, weights: Update) -> "torch.Tensor | None":
        """Return what a client adds to its loss at every step; None adds nothing."""
        return None

    def correction(self, state: State, own: State) -> Update | None:
        """Return what a client adds to its gradient at every step of a round; None adds nothing.

        It is asked where `stateful_clients`, for the shared adapter only. `state` is what the
        server keeps and `own` what this client does; each is empty until there is something.
        The gradient is corrected after it was clipped and before the optimizer uses it.
        """
        return None

    def client_state(self, own: State, gradient: Update) -> State:
        """Return a client's state after a round, in place of its `own`.

        `gradient` is the mean of its gradients over the steps of the round, in float32, each as it
        was before the correction.
        """
        return own

    def collect_states(
        self,
        state: State,
        before: Sequence[State],
        after: Sequence[State],
        weights: Sequence[float],
        everybody: Sequence[float],
    ) -> State:
        """Return the server's state once the round's clients have sent what changed in theirs.

        `state` is what `step` returned; `before` and `after` are the clients' own states, in the
        order of `weights`, their example counts. `everybody` has the example counts of all clients
        of the federation. What a client sends is the difference of the two states.
        """
        return state


DETECTOR = "names"
"""The detector in use where no other is named."""


class PiiDetector(Plugin, ABC):
    """Finds personal data in plain text."""

    @abstractmethod
    @ensures(_spans_of_texts)
    def detect(self, texts: Sequence[str]) -> list[tuple[PiiSpan, ...]]:
        """Return for each text its spans, sorted and without overlap."""

    @abstractmethod
    def describe(self) -> str:
        """Say what found the spans (tool, version, models, languages), for the report."""

    def labels(self, texts: Sequence[str]) -> frozenset[str]:
        """Return every label that it can give to spans of `texts`; none where it does not say.

        A label for which it cannot read the script of the texts is not among them: no kind of data
        passes for lack of targets that the detector could not have found.
        """
        return frozenset()


class Paraphraser(Plugin, ABC):
    """Judges whether two sentences say the same in other words."""

    @abstractmethod
    @ensures(_chances)
    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the probability, from 0 to 1, that each (generated, training) pair says the same.

        What a pair gets must not depend on the others, nor on their order.
        """

    @abstractmethod
    def describe(self) -> str:
        """Say what judged the pairs (model, version), for the report."""
