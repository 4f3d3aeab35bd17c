"""The settings of a simulated federation; a profile's [scale.*] tables are made of these."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from fedaudit.api.errors import UsageError
from fedaudit.api.plugin import UpTo
from fedaudit.api.templates import PromptTemplate, template
from fedaudit.judge.endpoint import Endpoint
from fedaudit.simulation.data.settings import (
    CanarySettings,
    FewShot,
    Partition,
    Records,
    WatermarkSettings,
)
from fedaudit.system.files import existing_path, json_sha256, lines_sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class SumQuerySettings:
    """The sums that a server asks secure aggregation for, to attribute watermarks later."""

    protocol: Literal["pairs", "shared"] = "pairs"
    """Pairs of sets for each client, as in the paper, or sets that a round's estimates share."""
    others: int = 5
    """Clients besides the one that a pair of sums is about: m."""
    pairs: int = 5
    """Pairs of sums for each client in each round: K."""
    sets: int = 0
    """Shared sets in each round, Q; 0 is half as many as there are clients."""
    limit: float = 1.0
    """The largest share of another client's update in an estimate; 1 sets no limit, as in the
    paper."""
    weights: Literal["equal", "size"] = "equal"
    """How updates are weighted in sums over some clients: equally, or by the clients' sizes."""

    def __post_init__(self) -> None:
        if self.others < 1 or self.pairs < 1:
            raise ValueError("others and pairs must be at least 1.")
        if self.sets < 0:
            raise ValueError("sets must be at least 0.")
        if self.protocol == "pairs" and not 1 <= self.limit * self.pairs <= self.pairs:
            raise ValueError("limit must lie between 1/pairs and 1.")
        if not 0 < self.limit <= 1:
            raise ValueError("limit must be above 0 and at most 1.")


Decay = Literal["linear", "cosine", "none"]

SETTINGS_WITHOUT_EFFECT = frozenset({"workers", "judge", "engine"})
"""Settings that a federation does not depend on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A client's training in one round; `steps` 0 means `epochs` passes over its documents."""

    steps: int = 0
    epochs: int = 1
    batch_size: int = 8
    accumulation: int = 1
    optimizer: Literal["adamw", "sgd"] = "adamw"
    """How gradients move the weights; the defence `dp` has an optimizer of its own."""
    learning_rate: float = 3e-4
    decay: Decay = "linear"
    """How the rate falls over all rounds together."""
    restart: bool = False
    """Whether the rate falls within every round instead, and starts again at its value in the
    next."""
    warmup: int = 0
    """Optimizer steps at the start of every round in which the rate rises to its value."""
    clip: float = 1.0
    weight_decay: float = 0.0
    max_length: int = 256
    """Longer documents are cut to this many tokens."""
    learned: Literal["text", "answer"] = "text"
    """The part of an instruction record that the loss covers; other documents are learned whole."""
    rank: Annotated[int, UpTo(4_096)] = 16
    alpha: int = 32
    checkpointing: bool = False
    """Compute activations again in the backward pass: less memory, a third more time."""
    dropout: float = 0.0
    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj")

    def __post_init__(self) -> None:
        if min(self.batch_size, self.accumulation, self.rank) < 1:
            raise ValueError("batch_size, accumulation and rank must be at least 1.")
        if self.max_length < 2:
            raise ValueError("max_length must be at least 2: a single token predicts nothing.")
        if min(self.steps, self.epochs) < 0 or not self.steps + self.epochs:
            raise ValueError("steps and epochs must not be negative, nor both be 0.")
        if min(self.warmup, self.weight_decay) < 0 or self.alpha < 1:
            raise ValueError("warmup and weight_decay must be at least 0, alpha at least 1.")
        if self.learning_rate <= 0 or self.clip <= 0 or not 0 <= self.dropout < 1:
            raise ValueError("learning_rate and clip must be above 0, dropout from 0 to below 1.")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """The judge of held-out answers, see docs/judge.md: an endpoint, or a model on this machine."""

    base: str = ""
    """The folder or hub id of a model that judges here, in place of an endpoint."""
    url: str = ""
    model: str = ""
    key_variable: str = ""
    timeout: float = 60.0
    retries: int = 5
    max_tokens: int = 256

    def __post_init__(self) -> None:
        if self.base and self.url:
            raise ValueError("base and url exclude each other.")
        self.endpoint()

    def endpoint(self) -> Endpoint | None:
        """Return the endpoint, None without one; raises ValueError for what cannot be."""
        if not self.url:
            return None
        return Endpoint(**{name: value for name, value in asdict(self).items() if name != "base"})


MOST_SEEDS = 2**32
"""numpy's legacy generators, which scikit-learn takes, have no more."""
MOST_CLIENTS = 100_000
"""Each has a name, a file and an adapter a round."""
MOST_TURNS = 1_000_000
"""Trainings of clients in all rounds together: at a second each, a week and a half."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """A federation to simulate."""

    base: str = "fedaudit-nano"
    data: str = "nano"
    """"nano" for the built-in generator, or a JSONL file."""
    client_data: Mapping[str, str] = field(default_factory=dict)
    """The JSONL file of each client, by its name, in place of `data` that is dealt to them."""
    seed: Annotated[int, UpTo(MOST_SEEDS)] = 0
    clients: int = 4
    without: tuple[str, ...] = ()
    """Clients that are left out, as if they had never joined: a counterfactual federation."""
    rounds: int = 10
    participation: float = 1.0
    """The share of clients drawn for each round."""
    held_out: float = 0.1
    """The share of documents that are not trained on, for utility."""
    test: str = ""
    """A JSONL file of documents that are not trained on, in place of that share."""
    evaluated: int = 64
    """At most this many held-out documents are evaluated."""
    central: bool = True
    """Also train one model on everybody's documents, to compare utility."""
    local: Literal["no", "plain", "defended"] = "no"
    """Also train a model on every client's own documents, without federation, to compare with; with
    "defended", the defences are applied as if each client were the whole federation."""
    template: str = "fed_pii"
    aggregation: str | Mapping[str, Any] = "fedavg"
    secure_aggregation: str | Mapping[str, Any] = ""
    """How the server gets sums in place of updates, which are then not kept; if empty, it sees
    every update."""
    queries: SumQuerySettings = field(default_factory=SumQuerySettings)
    defenses: tuple[str | Mapping[str, Any], ...] = ()
    """Defence plugins in the order of their stages: names, or tables of name and options."""
    detector: str = "presidio"
    """The plugin that annotates documents for a defence that must know where their PII is."""
    records: Records = field(default_factory=Records)
    few_shot: FewShot = field(default_factory=FewShot)
    partition: Partition = field(default_factory=Partition)
    watermark: WatermarkSettings = field(default_factory=WatermarkSettings)
    canaries: CanarySettings = field(default_factory=CanarySettings)
    training: Training = field(default_factory=Training)
    judge: JudgeSettings = field(default_factory=JudgeSettings)
    """Who compares held-out answers with the reference answers. No part of the result."""
    device: str = "auto"
    dtype: str = "auto"
    threads: Annotated[int, UpTo(1_024)] = 1
    """Threads of a client's training on CPU: part of the result, since sums differ with it."""
    workers: Annotated[int, UpTo(4_096)] = 0
    """Clients trained at once on CPU; 0: one per core. No part of the result."""
    engine: str = "local"
    """Where they train: here, on a cluster ("ray") or in Flower's simulation ("flower").
    No part of the result."""

    def __post_init__(self) -> None:
        if self.clients < 1 or self.rounds < 1:
            raise ValueError("clients and rounds must be at least 1.")
        if not 0 <= self.seed < MOST_SEEDS:
            raise ValueError(f"seed must be at least 0 and below {MOST_SEEDS:,}.")
        if self.clients > MOST_CLIENTS:
            raise ValueError(f"clients must be {MOST_CLIENTS:,} at most.")
        if not 0 < self.participation <= 1:
            raise ValueError("participation must be above 0 and at most 1.")
        if self.rounds * self.participants_per_round > MOST_TURNS:
            raise ValueError(f"All rounds together must have {MOST_TURNS:,} trainings at most.")
        if not 0 <= self.held_out < 1:
            raise ValueError("held_out must be at least 0 and below 1.")
        if self.threads < 1 or self.workers < 0 or self.evaluated < 0:
            raise ValueError("threads must be at least 1, workers and evaluated at least 0.")
        if self.client_data and len(self.client_data) != self.clients:
            raise ValueError("client_data names a file for each of `clients`, no more and no less.")
        if self.client_data and self.records.limit:
            raise ValueError(
                "records.limit counts documents of `data`, which client_data replaces."
            )
        if not set(self.without) < set(self.client_names):
            raise ValueError("without names some of the clients c0, c1, ..., and not all of them.")

    @property
    def compares_utility(self) -> bool:
        """Whether models to compare utility with are trained: not where someone is left out."""
        return not self.without

    @property
    def participants_per_round(self) -> int:
        """Return how many clients each round draws."""
        return max(1, round(self.participation * self.clients))

    @property
    def client_names(self) -> list[str]:
        """Return the names of the clients that documents are dealt to, left out ones included."""
        return sorted(self.client_data) or [f"c{number}" for number in range(self.clients)]

    @property
    def prompt_template(self) -> PromptTemplate:
        """The template that `template` names; raises UsageError for an unknown name."""
        return template(self.template)

    def aggregator(self) -> tuple[str, dict[str, Any]]:
        """Return the aggregation plugin's name and its options."""
        return name_and_options(self.aggregation, "fedavg")

    def secure_aggregation_plugin(self) -> tuple[str, dict[str, Any]]:
        """Return the secure aggregation plugin's name, empty for none, and its options."""
        return name_and_options(self.secure_aggregation, "", "secure_aggregation")

    def watermark_plugin(self) -> tuple[str, dict[str, Any]]:
        """Return the watermark plugin's name, empty for none, and its options."""
        return name_and_options(self.watermark.plugin, "", "watermark.plugin")

    def defense_plugins(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the name and options of every defence plugin."""
        return [name_and_options(defense, "") for defense in self.defenses]

    def table(self) -> dict[str, Any]:
        """Return the settings as JSON can hold them."""
        table: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        if not self.without:  # most federations leave no one out
            del table["without"]
        if not self.client_data:
            del table["client_data"]
        if not self.canaries.count:
            del table["canaries"]
        if not self.records.limit:
            del table["records"]["limit"]
        if not self.records.copies:
            del table["records"]["copies"]
        if self.partition.whole_groups:
            del table["partition"]["whole_groups"]
        return table

    def sha256(self) -> str:
        """Return the fingerprint of everything that the result depends on.

        A data file, a defence's included, counts by its lines, wherever it is, in any order.
        """
        table = {
            key: value for key, value in self.table().items() if key not in SETTINGS_WITHOUT_EFFECT
        }
        # A setting that is not used counts as it did before it existed: not at all.
        absent = {"few_shot": not self.few_shot.each, "test": not self.test}
        absent["local"] = self.local == "no"
        table = {key: value for key, value in table.items() if not absent.get(key)}
        if not self.secure_aggregation or self.queries.weights == "size":
            del table["queries"]["weights"]
        if not self.secure_aggregation or self.queries.protocol == "pairs":
            del table["queries"]["protocol"], table["queries"]["sets"]
        if self.data != "nano":
            table["data"] = lines_sha256(existing_path(Path(self.data), "file"))
        if self.client_data:
            paths = {
                name: existing_path(Path(file), "file") for name, file in self.client_data.items()
            }
            table["client_data"] = {name: lines_sha256(path) for name, path in paths.items()}
        if self.test:
            table["test"] = lines_sha256(existing_path(Path(self.test), "file"))
        if self.watermark.documents.endswith(".jsonl"):
            owned = lines_sha256(existing_path(Path(self.watermark.documents), "file"))
            table["watermark"] = {**table["watermark"], "documents": owned}
        table["defenses"] = [with_content(defense) for defense in table["defenses"]]
        return json_sha256(table)


def with_content(chosen: Any) -> Any:
    """Return a plugin's table with the name of each file of records replaced by its content."""
    if not isinstance(chosen, Mapping):
        return chosen
    return {
        key: lines_sha256(existing_path(Path(value), "file"))
        if isinstance(value, str) and (value.endswith(".jsonl") or Path(value).is_file())
        else value
        for key, value in chosen.items()
    }


def name_and_options(
    chosen: str | Mapping[str, Any], default: str, setting: str = ""
) -> tuple[str, dict[str, Any]]:
    """Return the plugin name and options given by a name or by a table that has a name.

    Raises UsageError, which names the `setting`, for options of no plugin.
    """
    if isinstance(chosen, str):
        return chosen, {}
    options = dict(chosen)
    name = str(options.pop("name", default))
    if options and not name:
        where = f": set {setting}.name" if setting else " beside them"
        raise UsageError(f"The options {', '.join(options)} need a plugin's name{where}.")
    return name, options
