"""Requests: what each command that attacks a model was asked to do."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from fedaudit.api.errors import UsageError, unknown_name_error
from fedaudit.api.plugin import DETECTOR, UpTo
from fedaudit.api.policy import Policy
from fedaudit.api.records import SamplingParams
from fedaudit.config import registry
from fedaudit.engine.remote.options import EndpointOptions
from fedaudit.engine.vllm.options import VllmOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientData:
    """A client and the file of its documents."""

    name: str
    path: str
    sha256: str


TEMPLATE = "fed_pii"
"""The prompt template, where neither user nor target names one."""
BUDGET = 10_000
"""The paper's: so many random prefixes of each attacker (FedPII, section 5.3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest(ABC):
    """What a command was asked to do; each command adds the files that it takes.

    Raises ValueError for a number that is too small.
    """

    kind: ClassVar[str]
    """Its name in the cache of answers."""
    command: ClassVar[str]
    purpose: ClassVar[str]
    """What the report's seed seeds."""
    input_kind: ClassVar[str] = "a JSONL file"
    """What `input_path` must be, in words."""
    compares_counterfactual: ClassVar[bool] = False
    """Whether its attacks look for a federation without the victim, beside the one audited."""
    compares_every_counterfactual: ClassVar[bool] = False
    """Whether it looks for federations without each of its clients, beside the one audited."""
    minimums: ClassVar[Mapping[str, int]] = {"batch_size": 0}
    """The smallest value of each number that has one."""

    attacks: tuple[str, ...]
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options of the attacks and of the detector, by name."""
    target: str | None = None
    adapter: str | None = None
    round: int | None = None
    client: str | None = None
    """Whose deployed model is asked, where a defence has deployed one."""
    keys: tuple[str, ...] = ()
    """The kinds of key under which it is asked; all without any."""
    detector: str = DETECTOR
    template: str = TEMPLATE
    """The prompt template of instruction records, where the target names none itself."""
    seed: int = 0
    batch_size: int = 0
    device: str = "auto"
    dtype: str = "auto"
    members: tuple[Path, ...] = ()
    """Documents of members beside attacker and victim; the federation's own without any."""
    control: Path | None = None
    """Documents that nobody in the federation has: their PII shows what guessing gives."""
    engine: str = "local"
    """Where the model is asked: "local[:N]" on this machine, "ray[:N]" on a Ray cluster, "vllm[:N]"
    by a vLLM server on N GPUs."""
    vllm: VllmOptions | None = None
    """How that vLLM server is started."""

    model: str | None = None
    """By which name a server has the model, where the target is a server's address."""
    endpoint: EndpointOptions | None = None
    """How that server is asked."""

    def __post_init__(self) -> None:
        for name, smallest in self.minimums.items():
            if getattr(self, name) < smallest:
                raise ValueError(f"{name} must be {smallest} or more.")

    @property
    @abstractmethod
    def input_path(self) -> Path:
        """The attacker's own documents."""

    @property
    def participants(self) -> tuple[ClientData, ...]:
        """The clients that take part, if they are more than an attacker and a victim."""
        return ()

    @property
    def victim_path(self) -> Path | None:
        """The victim's documents, if the auditor has them."""
        return None

    @property
    def held_out_path(self) -> Path | None:
        """Documents like the victim's that nobody trained on, if the auditor names any."""
        return None

    @property
    def counterfactual_path(self) -> Path | None:
        """The federation trained without the victim, if the auditor names one."""
        return None

    @property
    def reference_paths(self) -> tuple[Path, ...]:
        """Federations trained in the same way on other records, if the auditor names any."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionRequest(AuditRequest):
    """What `fedaudit extract` was asked to do."""

    kind: ClassVar[str] = "extract"
    command: ClassVar[str] = "extract"
    purpose: ClassVar[str] = "extraction"
    compares_counterfactual: ClassVar[bool] = True

    attacks: tuple[str, ...] = ("contextual",)
    prefixes: Path
    victim: Path | None = None
    held_out: Path | None = None
    counterfactual: Path | None = None
    reference_folders: tuple[Path, ...] = ()

    @property
    def input_path(self) -> Path:
        """The attacker's own documents, or prompts."""
        return self.prefixes

    @property
    def victim_path(self) -> Path | None:
        """The victim's documents, to score against."""
        return self.victim

    @property
    def held_out_path(self) -> Path | None:
        """Documents like the victim's that nobody trained on."""
        return self.held_out

    @property
    def counterfactual_path(self) -> Path | None:
        """The federation trained without the victim."""
        return self.counterfactual

    @property
    def reference_paths(self) -> tuple[Path, ...]:
        """Federations trained alike on other records."""
        return self.reference_folders


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossClientRequest(AuditRequest):
    """What `fedaudit extract --matrix` was asked to do."""

    kind: ClassVar[str] = "cross_client"
    command: ClassVar[str] = "extract"
    purpose: ClassVar[str] = "extraction"
    minimums: ClassVar[Mapping[str, int]] = {"batch_size": 0, "budget": 1}

    attacks: tuple[str, ...] = ("contextual",)
    clients: tuple[ClientData, ...]
    budget: int = BUDGET
    """How many prefixes of each attacker are asked, drawn at random from those of a multiset."""

    @property
    def input_path(self) -> Path:
        """The documents of the first client, from which the federation is found."""
        return Path(self.clients[0].path)

    @property
    def participants(self) -> tuple[ClientData, ...]:
        """All clients: each is the attacker once."""
        return self.clients


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceRequest(AuditRequest):
    """What `fedaudit infer` was asked to do."""

    kind: ClassVar[str] = "infer"
    command: ClassVar[str] = "infer"
    purpose: ClassVar[str] = "inference"

    attacks: tuple[str, ...] = ("ranking",)
    data: Path
    attacker: Path | None = None
    """Whose documents the attacker has; what stands in them is not asked about."""

    @property
    def input_path(self) -> Path:
        """The attacker's own documents, or else the documents whose PII is masked."""
        return self.attacker or self.data

    @property
    def victim_path(self) -> Path | None:
        """The documents whose PII is masked, if an attacker has other ones."""
        return self.data if self.attacker else None


MIN_SUFFIX_TOKENS = 20
"""The number of tokens that a text needs after its prefix; shorter texts are left out."""

DecodingMode = Literal["top-k", "top-p", "temperature", "greedy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """Sampling of texts, decoding, and comparison; the defaults are the paper's."""

    sample: Annotated[int, UpTo(10_000_000)] = 4000
    """The maximum number of texts per client, whose prefixes and suffixes are used."""
    prefix_length: int = 30
    """The number of a text's tokens that are its prefix."""
    retrieved: Annotated[int, UpTo(10_000_000)] = 10
    """The number of suffixes of each client, most similar first, to compare a continuation with."""
    decoding: DecodingMode = "top-k"
    top_k: Annotated[int, UpTo(10_000_000)] = 40
    top_p: float = 0.8
    temperature: float = 1.0
    new_tokens: int = 256
    """The maximum number of new tokens."""
    prompt: Literal["record", "header"] = "record"
    """What precedes the prefix in a prompt. "record": everything before the input in the training
    text, including the instruction; "header": only what every record begins with, as in the
    published program."""
    all_pairs: bool = False
    """Whether to compare with every sampled suffix instead of the retrieved ones."""
    compat: bool = False
    """Whether to use the published detector's rules, with its defects, and to count sentence pairs
    with p <= 0.5."""
    central: bool = False
    """Whether to measure also the model that the simulation trained centrally on all data."""
    paraphraser: str = ""
    """The plugin that scores paraphrases; without one, the paraphrase stage is off."""
    scoring: Mapping[str, Any] = field(default_factory=dict)
    """The options of the paraphraser."""

    def __post_init__(self) -> None:
        counts = (self.sample, self.prefix_length, self.retrieved, self.new_tokens, self.top_k)
        if min(counts) < 1:
            raise ValueError(
                "sample, prefix_length, retrieved, new_tokens and top_k must be at least 1."
            )
        if not self.temperature > 0:
            raise ValueError('temperature must be above 0; decoding "greedy" takes the likeliest.')
        self.sampling_params()

    @property
    def min_tokens(self) -> int:
        """The minimum number of tokens of a usable text."""
        return self.prefix_length + MIN_SUFFIX_TOKENS

    def sampling_params(self) -> SamplingParams:
        """Return the sampling params; only the option that `decoding` names is used."""
        return {
            "top-k": SamplingParams(top_k=self.top_k),
            "top-p": SamplingParams(top_p=self.top_p),
            "temperature": SamplingParams(temperature=self.temperature),
            "greedy": SamplingParams(temperature=0.0),
        }[self.decoding]

    def scope(self) -> dict[str, object]:
        """Return the fields that go into the scope of every measurement."""
        return {"decoding": self.decoding, "prefix_length": self.prefix_length}

    def categories(self) -> tuple[str, ...]:
        """Return the categories of memorization that are measured."""
        high = ("paraphrase_high",) if self.paraphraser else ()
        low = ("paraphrase_low",) if self.paraphraser and self.compat else ()
        return ("verbatim", "idea", *high, *low)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorizationRequest(AuditRequest):
    """The settings of one `fedaudit memorize`."""

    kind: ClassVar[str] = "memorize"
    command: ClassVar[str] = "memorize"
    purpose: ClassVar[str] = "memorization"
    compares_every_counterfactual: ClassVar[bool] = True
    minimums: ClassVar[Mapping[str, int]] = {"batch_size": 0, "workers": 0}

    attacks: tuple[str, ...] = ()
    clients: tuple[ClientData, ...]
    protocol: Protocol = field(default_factory=Protocol)
    shorter: bool = False
    """Whether prefixes may be shorter than the protocol says if most texts are too short."""
    workers: int = 0
    """The number of processes that compare texts; 0 means one per core."""

    @property
    def input_path(self) -> Path:
        """The first client's file, by which the federation is found."""
        return Path(self.clients[0].path)

    @property
    def participants(self) -> tuple[ClientData, ...]:
        """The clients whose texts are searched for."""
        return self.clients


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureRequest(AuditRequest):
    """The settings of one `fedaudit canary measure`."""

    kind: ClassVar[str] = "canary"
    command: ClassVar[str] = "canary"
    purpose: ClassVar[str] = "references"
    input_kind: ClassVar[str] = "the JSON file that `fedaudit canary make` wrote"
    minimums: ClassVar[Mapping[str, int]] = {"batch_size": 0, "space_limit": 0, "references": 1}

    attacks: tuple[str, ...] = ()
    canaries: Path
    space_limit: int = 10_000
    """The size up to which all secrets of the space are scored."""
    references: int = 1_000
    """The number of secrets drawn at random from a larger space, for each sentence."""
    commitment: str = ""
    """The commitment to the canary file that was published before training; empty if unknown."""

    @property
    def input_path(self) -> Path:
        """The canary file."""
        return self.canaries


@dataclass(frozen=True, slots=True, kw_only=True)
class EpsilonRequest(AuditRequest):
    """The settings of one `fedaudit dp audit`."""

    kind: ClassVar[str] = "dp"
    command: ClassVar[str] = "dp"
    purpose: ClassVar[str] = "coins tossed anew"
    input_kind: ClassVar[str] = "the JSON file that `fedaudit dp make` wrote"
    minimums: ClassVar[Mapping[str, int]] = {"batch_size": 0}

    attacks: tuple[str, ...] = ()
    coins: Path
    epsilon: float | None = None
    """The epsilon claimed at the coin file's delta; None takes it from the federation's report."""
    noiseless: Path | None = None
    """The same federation trained without noise, as a positive control."""
    commitment: str = ""
    """The commitment to the coin file that was published before training; empty if unknown."""

    def __post_init__(self) -> None:
        # Without `super()`: slots make another class of this one.
        AuditRequest.__post_init__(self)
        if self.epsilon is not None and not self.epsilon >= 0:
            raise ValueError("--epsilon must be 0 or more.")

    @property
    def input_path(self) -> Path:
        """The coin file."""
        return self.coins


RELEASES = ("internal", "api-text", "api-logprobs", "weights", "federation-member", "server")
"""Who can ask the model, and what it gives away: texts, probabilities, its weights."""

POSITIONS = ("outsider", "member", "server", "key-holder")

REACHED = {
    "internal": frozenset({"text", "logprobs", "weights"}),
    "api-text": frozenset({"text"}),
    "api-logprobs": frozenset({"text", "logprobs"}),
    "weights": frozenset({"text", "logprobs", "weights"}),
    "federation-member": frozenset({"text", "logprobs", "weights"}),
    "server": frozenset({"text", "logprobs", "weights", "updates"}),
}
"""What an attacker can use if a model is released in this way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseContext:
    """What was declared about a release; a field that nobody declared is empty.

    Raises UsageError for a word outside the lists, and for `declared_by` without a declaration.
    """

    release: str = ""
    positions: tuple[str, ...] = ()
    declared_by: str = ""
    parties: Mapping[str, str] = field(default_factory=dict)
    """What parties are called, by their names in the report."""

    def __post_init__(self) -> None:
        if self.release and self.release not in RELEASES:
            raise unknown_name_error("release", self.release, RELEASES)
        for position in self.positions:
            if position not in POSITIONS:
                raise unknown_name_error("position", position, POSITIONS)
        if self.declared_by and not (self.release or self.positions):
            raise UsageError("--declared-by goes with --release or --position.")

    def table(self) -> dict[str, Any]:
        """Return the context as a report holds it."""
        table = {
            "release": self.release or None,
            "positions": list(dict.fromkeys(self.positions)),
            "declared_by": self.declared_by or None,
        }
        return {**table, "parties": dict(self.parties)} if self.parties else table

    def beyond(self, access: set[str]) -> list[str]:
        """Return the access used beyond the declared release; empty if no release was declared."""
        return sorted(access - REACHED[self.release]) if self.release else []


@dataclass(frozen=True, slots=True, kw_only=True)
class AssessmentRequest(AuditRequest):
    """Every step of an audit, and the policy and context for its verdict.

    Raises UsageError if there is no step.
    """

    kind: ClassVar[str] = "audit"
    command: ClassVar[str] = "audit"
    purpose: ClassVar[str] = "audit"

    attacks: tuple[str, ...] = ()
    steps: Mapping[str, AuditRequest]
    """The steps that ask the audited model, by name, in their order."""
    policy: Policy = field(default_factory=Policy)
    context: ReleaseContext = field(default_factory=ReleaseContext)
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Why a class of attacks, or a step, is not run."""
    quick: bool = False

    def __post_init__(self) -> None:
        AuditRequest.__post_init__(self)
        if not self.steps:
            raise UsageError("Nothing can be asked of this model with what is at hand.")

    @property
    def input_path(self) -> Path:
        """The documents of the first step."""
        return next(iter(self.steps.values())).input_path


def attacks_with(*attributes: str, among: Iterable[str] | None = None) -> list[str]:
    """Return the names of installed attacks, or of those `among`, with one of these attributes."""
    plugins = registry.plugins("attack")
    return [
        name
        for name in (plugins if among is None else among)
        if any(getattr(plugins.get(name), attribute, False) for attribute in attributes)
    ]
