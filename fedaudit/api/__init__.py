"""Everything that a plugin may rely on: contracts, records that pass between them, and errors.

`__all__` is the whole list. Import from here (`from fedaudit.api import Attack, Result`): which
module below holds a name may change; to change what it means takes a new major version (before 1.0
a new minor one). No module here imports anything else of fedaudit, nor torch.

* `abilities`: What may be asked of an engine: all of it of a model in memory, less of a server
  over HTTP.
* `attribution`: What attribution is: telling which clients trained on watermarked documents.
* `completion`: What the verdict on completions asks of an attack that lets a model complete
  training records.
* `cost`: What an attack will ask of a model, counted before it runs.
* `defense`: What a defence is: its stages from a client's documents to how the deployed model
  answers.
* `engine`: What an engine is: it continues prompts, scores texts and computes exact probabilities.
* `errors`: What can go wrong, and the exit code each becomes.
* `estimates`: An estimate, that of a rate, and that of a difference: what all may need beside a
  number.
* `hooks`: The hooks a plugin package may implement; each returns a list of classes.
* `importer`: What an importer is: it knows a layout that another framework leaves a federation in.
* `kind`: A kind of number: how the verdict judges it and what reports say of it, in one class.
* `plugin`: What a plugin is, and what it may ask of the core.
* `policy`: The limits that a policy sets for an audit, and how certain the evidence must be.
* `progress`: How long work tells of itself.
* `records`: Every frozen record that rooms hand to each other: values only, nothing heavy
  imported.
* `scripts`: The scripts that a text is written in, and which of them put no spaces between words.
* `secure_aggregation`: What secure aggregation is: a server learns sums over sets of clients and
  nothing else.
* `target_sets`: The sets of strings that rows of an extraction count: the values of `scope.set`.
* `templates`: Prompt templates: how instruction, input and output become the text that is trained
  on.
* `watermark`: What a watermark is: it marks documents so that a model trained on them is
  recognised.

Beside the list, a plugin may use the kits in `KITS`: packages that save it work. They may change in
any release, and the change log then says so. Everything else is internal.
"""

from fedaudit.api.abilities import Ability, decoding_abilities, missing_abilities, why_lacking
from fedaudit.api.attribution import (
    AttributionContext,
    AttributionResult,
    Attributor,
    ClientScore,
    RoundRecord,
)
from fedaudit.api.completion import (
    BEYOND_HELD_OUT,
    COMPLETION_DETECTABLE,
    COMPLETION_LEVEL,
    COMPLETION_MARGIN,
    COMPLETION_POWER,
    HELD_OUT,
    RELATED_HELD_OUT,
)
from fedaudit.api.cost import Cost, Counts
from fedaudit.api.defense import (
    ClientState,
    Defense,
    DeployedClient,
    FinishedFederation,
    KeyChange,
    KeyedResponder,
    Responder,
    TrainedClient,
    TrainingSession,
)
from fedaudit.api.engine import (
    Engine,
    EngineWrapper,
    GenerationBatch,
    LoadedModel,
    LogProbabilities,
    ModelEngine,
    MultiTargetEngine,
    PrefixProbabilities,
    PrefixProbabilityRequest,
    TokenRows,
    TokenStatistics,
    follow_up_engine,
    text_start,
    unwrap_engine,
)
from fedaudit.api.errors import (
    FedauditError,
    InputError,
    TargetError,
    UsageError,
    unknown_name_error,
)
from fedaudit.api.estimates import Estimate, wilson
from fedaudit.api.hooks import hookimpl
from fedaudit.api.importer import (
    ForeignAdapter,
    ForeignFederation,
    ForeignFolder,
    ForeignRound,
    Importer,
    StateDump,
)
from fedaudit.api.kind import Answer, Judgement, Kind, Question, Row, Table, Test, counted
from fedaudit.api.plugin import (
    Aggregator,
    Attack,
    AttackContext,
    Paraphraser,
    PiiDetector,
    Plugin,
    Result,
    RoundUpdate,
    State,
    Update,
    UpTo,
)
from fedaudit.api.policy import Policy
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import (
    ClientModel,
    Completion,
    Document,
    Finding,
    GatedRequest,
    GenerationRequest,
    Measurement,
    PiiSpan,
    PromptStart,
    ReferenceModel,
    RoutedRequest,
    SamplingParams,
    Severity,
    Target,
    TextPiece,
    Tokens,
)
from fedaudit.api.scripts import HAN, has_han
from fedaudit.api.secure_aggregation import SecureAggregation
from fedaudit.api.templates import PromptTemplate
from fedaudit.api.watermark import Mark, Score, Watermark

KITS = {
    "fedaudit.data": "documents: files of records, and public examples",
    "fedaudit.engine": "models in this process: FakeEngine for tests, LocalEngine, LoRA, training",
    "fedaudit.extraction": "attacks by prefixes: PrefixAttack, prefixes, controls, scoring",
    "fedaudit.federation.adapters": "LoRA adapters on disk",
    "fedaudit.metrics": "statistics: intervals, tests, similarity of texts",
    "fedaudit.pii": "strings that are personal data: spans, check digits, masks",
    "fedaudit.testing": "the contract test of plugins: check_plugin",
    "fedaudit.system": "files that are whole or absent, and names that may become files",
}
"""Packages of fedaudit that a plugin may import from as well, and what each is for."""

__all__ = [
    "BEYOND_HELD_OUT",
    "COMPLETION_DETECTABLE",
    "COMPLETION_LEVEL",
    "COMPLETION_MARGIN",
    "COMPLETION_POWER",
    "HAN",
    "HELD_OUT",
    "KITS",
    "RELATED_HELD_OUT",
    "Ability",
    "Aggregator",
    "Answer",
    "Attack",
    "AttackContext",
    "AttributionContext",
    "AttributionResult",
    "Attributor",
    "ClientModel",
    "ClientScore",
    "ClientState",
    "Completion",
    "Cost",
    "Counts",
    "Defense",
    "DeployedClient",
    "Document",
    "Engine",
    "EngineWrapper",
    "Estimate",
    "FedauditError",
    "Finding",
    "FinishedFederation",
    "ForeignAdapter",
    "ForeignFederation",
    "ForeignFolder",
    "ForeignRound",
    "GatedRequest",
    "GenerationBatch",
    "GenerationRequest",
    "Importer",
    "InputError",
    "Judgement",
    "KeyChange",
    "KeyedResponder",
    "Kind",
    "LoadedModel",
    "LogProbabilities",
    "Mark",
    "Measurement",
    "ModelEngine",
    "MultiTargetEngine",
    "Paraphraser",
    "PiiDetector",
    "PiiSpan",
    "Plugin",
    "Policy",
    "PrefixProbabilities",
    "PrefixProbabilityRequest",
    "Progress",
    "PromptStart",
    "PromptTemplate",
    "Question",
    "ReferenceModel",
    "Responder",
    "Result",
    "RoundRecord",
    "RoundUpdate",
    "RoutedRequest",
    "Row",
    "SamplingParams",
    "Score",
    "SecureAggregation",
    "Severity",
    "State",
    "StateDump",
    "Table",
    "Target",
    "TargetError",
    "Test",
    "TextPiece",
    "TokenRows",
    "TokenStatistics",
    "Tokens",
    "TrainedClient",
    "TrainingSession",
    "UpTo",
    "Update",
    "UsageError",
    "Watermark",
    "counted",
    "decoding_abilities",
    "follow_up_engine",
    "has_han",
    "hookimpl",
    "missing_abilities",
    "no_progress",
    "text_start",
    "unknown_name_error",
    "unwrap_engine",
    "why_lacking",
    "wilson",
]
