"""Requests: what each command that attacks a model was asked to do."""

from abc import ABC
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_type_hints

from typer import Option
from typer.models import OptionInfo

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


@cache
def options_of(request: type) -> dict[str, OptionInfo]:
    """Return the options that a dataclass's fields are annotated with, inherited ones last."""
    hints = get_type_hints(request, include_extras=True)
    own = request.__annotations__
    names = sorted((one.name for one in fields(request)), key=lambda name: name not in own)
    return {
        name: note
        for name in names
        for note in getattr(hints[name], "__metadata__", ())
        if isinstance(note, OptionInfo)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest(ABC):
    """What a command was asked to do; each command adds the files that it takes.

    A field annotated with an option is one of the command line. Raises ValueError for a number that
    is too small.
    """

    kind: ClassVar[str]
    """Its name in the cache of answers."""
    command: ClassVar[str]
    purpose: ClassVar[str]
    """What the report's seed seeds."""
    input_field: ClassVar[str] = ""
    """The field with the attacker's own documents; empty with `clients`."""
    input_kind: ClassVar[str] = "a JSONL file"
    """What `input_path` must be, in words."""
    compares_counterfactual: ClassVar[bool] = False
    """Whether its attacks look for a federation without the victim, beside the one audited."""
    compares_held_out: ClassVar[bool] = False
    """Whether it compares with held-out records, whatever its attacks do."""
    compares_every_counterfactual: ClassVar[bool] = False
    """Whether it looks for federations without each of its clients, beside the one audited."""

    attacks: tuple[str, ...]
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options of the attacks and of the detector, by name."""
    target: Annotated[
        str | None,
        Option(
            "--target",
            help="A federation's folder, a model folder, a hub id, or a server's address "
            "(http://...).",
        ),
    ] = None
    model: Annotated[
        str | None, Option("--model", metavar="NAME", help="The model's name on the server.")
    ] = None
    endpoint: EndpointOptions | None = None
    """How that server is asked."""
    adapter: Annotated[
        str | None,
        Option("--adapter", help="The folder of a LoRA adapter on the target model."),
    ] = None
    round: Annotated[
        int | None, Option("--round", help="The federation's round; default: the last.")
    ] = None
    client: Annotated[
        str | None,
        Option(
            "--client",
            help="The client whose deployed model is asked; default: the client of the data.",
        ),
    ] = None
    keys: Annotated[
        tuple[str, ...],
        Option(
            "--key",
            help="The kind of key to ask with: right, wrong, none or other; default: all; may be "
            "repeated.",
        ),
    ] = ()
    seed: Annotated[int, Option("--seed", help="The seed of everything random.")] = 0
    batch_size: Annotated[
        int,
        Option(
            "--batch-size",
            help="Continuations drawn or texts scored at once; 0: chosen automatically.",
            min=0,
            max=1_000_000,
        ),
    ] = 0
    detector: Annotated[
        str, Option("--detector", help="The plugin that finds PII in unannotated documents.")
    ] = DETECTOR
    template: Annotated[
        str, Option("--template", help="The prompt template, if the target names none.")
    ] = TEMPLATE
    members: tuple[Path, ...] = ()
    """Documents of members beside attacker and victim; the federation's own without any."""
    control: Path | None = None
    """Documents that no one in the federation has: their PII shows what guessing gives."""
    device: Annotated[str, Option("--device", help="cpu, cuda, cuda:1, ... or auto.")] = "auto"
    dtype: Annotated[str, Option("--dtype", help="float32, bfloat16, float16 or auto.")] = "auto"
    engine: Annotated[
        str,
        Option(
            "--engine",
            metavar="local|ray[:N]|vllm[:N]",
            help="Where models run: in this process, on N engines of a Ray cluster (by default of "
            "this machine), or in vLLM on N GPUs.",
        ),
    ] = "local"
    vllm: VllmOptions | None = None
    """How that vLLM server is started."""

    def __post_init__(self) -> None:
        for name, option in options_of(type(self)).items():
            value, least = getattr(self, name), option.min
            if None not in (value, least) and not value >= least:  # NaN, too
                raise ValueError(f"{name} must be {least} or more.")

    @property
    def participants(self) -> tuple[ClientData, ...]:
        """The clients that take part, if they are more than an attacker and a victim."""
        clients: tuple[ClientData, ...] = getattr(self, "clients", ())
        return clients

    @property
    def input_path(self) -> Path:
        """The attacker's own documents, or the first client's, by which the federation is found."""
        if self.participants:
            return Path(self.participants[0].path)
        path: Path = getattr(self, self.input_field)
        return path

    @property
    def victim_path(self) -> Path | None:
        """The victim's documents, if the auditor has them."""
        return getattr(self, "victim", None)

    @property
    def held_out_path(self) -> Path | None:
        """Documents like the victim's that were never trained on, if the auditor names any."""
        return getattr(self, "held_out", None)

    @property
    def counterfactual_path(self) -> Path | None:
        """The federation trained without the victim, if the auditor names one."""
        return getattr(self, "counterfactual", None)

    @property
    def reference_paths(self) -> tuple[Path, ...]:
        """Federations trained in the same way on other records, if the auditor names any."""
        return getattr(self, "reference_folders", ())


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionRequest(AuditRequest):
    """What `fedaudit extract` was asked to do."""

    kind: ClassVar[str] = "extract"
    command: ClassVar[str] = "extract"
    purpose: ClassVar[str] = "extraction"
    input_field: ClassVar[str] = "prefixes"
    compares_counterfactual: ClassVar[bool] = True

    attacks: tuple[str, ...] = ("contextual",)
    prefixes: Path
    victim: Annotated[
        Path | None,
        Option("--victim", "--theirs", help="The victim's documents, to score against."),
    ] = None
    members: Annotated[
        tuple[Path, ...],
        Option(
            "--member",
            help="Documents of a member other than attacker and victim; default: the federation's "
            "own; may be repeated.",
        ),
    ] = ()
    control: Annotated[
        Path | None,
        Option(
            "--control",
            help="Documents that are in no member's records; their PII shows what guessing finds.",
        ),
    ] = None
    held_out: Annotated[
        Path | None,
        Option(
            "--held-out",
            help="Documents like the victim's that were not trained on, to compare with.",
        ),
    ] = None
    counterfactual: Annotated[
        Path | None,
        Option(
            "--counterfactual",
            metavar="RUN",
            help="The federation trained without the victim; default: one beside the target.",
        ),
    ] = None
    reference_folders: Annotated[
        tuple[Path, ...],
        Option(
            "--reference",
            metavar="RUN",
            help="A federation trained in the same way on other records, for LiRA; may be "
            "repeated.",
        ),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossClientRequest(AuditRequest):
    """What `fedaudit extract --matrix` was asked to do."""

    kind: ClassVar[str] = "cross_client"
    command: ClassVar[str] = "extract"
    purpose: ClassVar[str] = "extraction"

    attacks: tuple[str, ...] = ("contextual",)
    clients: tuple[ClientData, ...]
    budget: Annotated[
        int,
        Option(
            "--budget", help="Prefixes that each attacker of --matrix asks.", min=1, max=1_000_000
        ),
    ] = BUDGET
    """Prefixes are drawn at random from a multiset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceRequest(AuditRequest):
    """What `fedaudit infer` was asked to do."""

    kind: ClassVar[str] = "infer"
    command: ClassVar[str] = "infer"
    purpose: ClassVar[str] = "inference"

    attacks: tuple[str, ...] = ("ranking",)
    data: Annotated[Path, Option("--data", help="The documents whose PII is masked, as JSONL.")]
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

    sample: Annotated[
        int,
        UpTo(10_000_000),
        Option("--sample", help="Texts drawn at random from each client.", min=1, max=10_000_000),
    ] = 4000
    prefix_length: int = 30
    """The number of a text's tokens that are its prefix."""
    decoding: Annotated[
        DecodingMode,
        Option("--decoding", help="How tokens are drawn: top-k, top-p, temperature or greedy."),
    ] = "top-k"
    top_k: Annotated[
        int,
        UpTo(10_000_000),
        Option(
            "--top-k",
            help="How many of the likeliest tokens top-k draws from.",
            min=1,
            max=10_000_000,
        ),
    ] = 40
    top_p: Annotated[
        float,
        Option("--top-p", help="The total probability of the tokens that top-p draws from."),
    ] = 0.8
    temperature: Annotated[
        float, Option("--temperature", help="The temperature of --decoding temperature.")
    ] = 1.0
    new_tokens: Annotated[
        int,
        Option("--new-tokens", help="The most tokens of a continuation.", min=1, max=100_000),
    ] = 256
    prompt: Annotated[
        Literal["record", "header"],
        Option(
            "--prompt",
            help="What precedes a prefix: all that does in the record, including the instruction "
            "(record), or only what every record begins with, as in the published program "
            "(header).",
        ),
    ] = "record"
    retrieved: Annotated[
        int,
        UpTo(10_000_000),
        Option(
            "--retrieved",
            help="Suffixes of each client to compare with, the most similar first.",
            min=1,
            max=10_000_000,
        ),
    ] = 10
    all_pairs: Annotated[bool, Option("--all-pairs", help="Compare with every suffix instead.")] = (
        False
    )
    compat: Annotated[
        bool,
        Option(
            "--compat",
            help="Use the published detector's rules, with its defects, look for the drawn texts "
            "only, and count sentence pairs with p <= 0.5.",
        ),
    ] = False
    central: Annotated[
        bool, Option("--central", help="Measure the centrally trained model as well.")
    ] = False
    paraphraser: Annotated[
        str, Option("--paraphraser", help="The plugin that scores paraphrases; default: none.")
    ] = ""
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

    attacks: tuple[str, ...] = ()
    clients: tuple[ClientData, ...]
    protocol: Protocol = field(default_factory=Protocol)
    shorter: bool = False
    """Whether prefixes may be shorter than the protocol says if most texts are too short."""
    workers: Annotated[
        int,
        Option(
            "--workers", help="Processes that compare texts; 0: one per core.", min=0, max=4_096
        ),
    ] = 0


Commitment = Annotated[
    str, Option("--commitment", help="The commitment that was published before training.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureRequest(AuditRequest):
    """The settings of one `fedaudit canary measure`."""

    kind: ClassVar[str] = "canary"
    command: ClassVar[str] = "canary"
    purpose: ClassVar[str] = "references"
    input_field: ClassVar[str] = "canaries"
    input_kind: ClassVar[str] = "the JSON file that `fedaudit canary make` wrote"

    attacks: tuple[str, ...] = ()
    canaries: Path
    commitment: Commitment = ""
    space_limit: Annotated[
        int,
        Option(
            "--space-limit",
            help="Score all secrets of a space that has at most this many.",
            min=0,
            max=10_000_000,
        ),
    ] = 10_000
    references: Annotated[
        int,
        Option(
            "--references",
            help="Secrets drawn at random from a larger space, for each sentence.",
            min=1,
            max=1_000_000,
        ),
    ] = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EpsilonRequest(AuditRequest):
    """The settings of one `fedaudit dp audit`."""

    kind: ClassVar[str] = "dp"
    command: ClassVar[str] = "dp"
    purpose: ClassVar[str] = "coins tossed anew"
    input_field: ClassVar[str] = "coins"
    input_kind: ClassVar[str] = "the JSON file that `fedaudit dp make` wrote"

    attacks: tuple[str, ...] = ()
    coins: Path
    epsilon: Annotated[
        float | None,
        Option(
            "--epsilon",
            help="The claimed epsilon, at the coin file's delta; default: the one in the "
            "simulation's report.",
            min=0,
        ),
    ] = None
    noiseless: Annotated[
        Path | None,
        Option(
            "--noiseless",
            metavar="RUN",
            help="The same federation trained without noise, for which the audit must refute "
            "the claim.",
        ),
    ] = None
    commitment: Commitment = ""


References = Annotated[
    int,
    Option(
        "--references",
        help="Secrets drawn at random that each canary is ranked among.",
        min=1,
        max=1_000_000,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRequest(AuditRequest):
    """The settings of one `fedaudit watch`."""

    kind: ClassVar[str] = "watch"
    command: ClassVar[str] = "watch"
    purpose: ClassVar[str] = "references"
    input_field: ClassVar[str] = "ours"
    compares_held_out: ClassVar[bool] = True

    attacks: tuple[str, ...] = ()
    round: Annotated[
        int | None, Option("--round", help="Test the rounds up to this one; default: all.")
    ] = None
    ours: Annotated[
        Path, Option("--ours", help="Your records, on which the federation trains, as JSONL.")
    ]
    held_out: Annotated[
        Path | None,
        Option(
            "--held-out",
            help="Records like yours that you set aside at random; a simulation has its own.",
        ),
    ] = None
    canaries: Annotated[
        Path | None,
        Option("--canaries", help="The secret file of canaries that you planted."),
    ] = None
    limit: Annotated[
        float,
        Option(
            "--limit",
            help="The share of your records that may be learnt; 0: none.",
            min=0,
            max=1,
        ),
    ] = 0.1
    references: References = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetRequest(AuditRequest):
    """The settings of one `fedaudit forget verify`; the target is the model after."""

    kind: ClassVar[str] = "forget"
    command: ClassVar[str] = "forget"
    purpose: ClassVar[str] = "references"
    input_field: ClassVar[str] = "ours"
    compares_held_out: ClassVar[bool] = True

    attacks: tuple[str, ...] = ()
    before: Annotated[
        Path,
        Option(
            "--before",
            help="The model before the member left: a federation, or an adapter on the same base.",
        ),
    ]
    ours: Annotated[Path, Option("--ours", help="The records of the member that left, as JSONL.")]
    held_out: Annotated[
        Path | None,
        Option("--held-out", help="Records like them, set aside at random and never trained on."),
    ] = None
    retrained: Annotated[
        tuple[Path, ...],
        Option(
            "--retrained",
            help="A model trained without the member, as --before; each with a seed of its own; "
            "may be repeated.",
        ),
    ] = ()
    canaries: Annotated[
        Path | None,
        Option("--canaries", help="The secret file of canaries planted in the records."),
    ] = None
    limit: Annotated[
        float,
        Option(
            "--limit",
            help="The share of records, and of what was learnt, that may be left.",
            min=0,
            max=1,
        ),
    ] = 0.1
    references: References = 100


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
    """What was declared about a release; a field that no one declared is empty.

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
    victims: Mapping[str, str] = field(default_factory=dict)
    """By step, the client whose records it looks for, where several clients are victims in turn."""
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
