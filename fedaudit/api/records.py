"""Every frozen record that rooms hand to each other: values only, nothing heavy imported."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Literal

from fedaudit.api.estimates import Estimate, wilson


@dataclass(frozen=True, slots=True, order=True)
class PiiSpan:
    """Personal data in a text: half-open, in Unicode code points."""

    start: int
    end: int
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One record of a corpus; `pii` is None when no one has annotated it yet."""

    id: str
    text: str
    pii: tuple[PiiSpan, ...] | None = None
    instruction: str = ""
    input: str = ""
    output: str = ""
    task: str = ""
    group: str = ""
    """Documents of one group (a case file, a patient) stay with one client."""
    is_prompt: bool = False
    """True for a `{"prefix": ...}` line: `text` is a ready-made prompt, not training data."""

    def strings(self) -> tuple[tuple[str, str], ...]:
        """Return (PII string, label) of every annotated span, in order."""
        return tuple((self.text[span.start : span.end], span.label) for span in self.pii or ())

    def annotated(self, spans: tuple[PiiSpan, ...]) -> "Document":
        """Return this document with `spans` as its annotation."""
        return replace(self, pii=spans)


Place = tuple[str | int, ...]
"""Where a value stands in a JSON object: the names and numbers that lead to it."""


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A part of a text, and the string of a record that it is; a template's own has no place."""

    text: str
    place: Place = ()


def join_pieces(pieces: Iterable[TextPiece]) -> str:
    """Return the text that pieces make."""
    return "".join(piece.text for piece in pieces)


@dataclass(frozen=True, slots=True)
class Tokens:
    """A tokenised text: ids, and each token's (start, end) in code points of the text."""

    ids: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """A question to the model: continue `prompt` `samples` times.

    Sample i of a request draws its randomness from (seed of the run, prompt, i) and nothing
    else, so equal prompts must be one request with more samples, not several.
    """

    prompt: tuple[int, ...]
    samples: int
    max_new_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptStart:
    """How prompts begin: one way at a document's start, one for a crop from its middle."""

    start: str = "bare"
    middle: str = "bare"


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How continuations are drawn; temperature 0 is greedy."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < inf:
            raise ValueError("temperature must be at least 0.")
        if self.top_k < 0 or not 0 < self.top_p <= 1:
            raise ValueError("top_k must be at least 0, top_p above 0 and at most 1.")


@dataclass(frozen=True, slots=True)
class Completion:
    """The continuations of one request, in sample order, as text without the prompt."""

    texts: tuple[str, ...]
    tokens: tuple[tuple[int, ...], ...] = ()
    """The same as the tokens that were drawn, where they were asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One model to question: the engine's base, with or without an adapter."""

    name: str
    adapter: str | None = None
    """The adapter's folder; None is the base itself."""
    heading: str | None = field(default=None, repr=False)
    """Text before every prompt to a deployed model, whose responder chooses the adapter; it may
    hold a key. None: no responder is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientModel:
    """A client's own model in a round, as the server sees it, and the records it is of."""

    target: Target
    documents: Sequence[Document]
    """What the client trained on, as far as it is at hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceModel:
    """A model of a reference federation, and what that was trained on."""

    target: Target
    texts: frozenset[str]


@dataclass(frozen=True, slots=True)
class GatedRequest:
    """What someone asks a deployed model: text, which may hold a key, and a prompt behind it."""

    heading: str = field(repr=False)
    prompt: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RoutedRequest:
    """A request as the deployed model answers it."""

    name: str
    """What the adapter is called in the deployment, for example "secure"."""
    adapter: str | None
    """Its folder; None is the base."""
    prompt: tuple[int, ...]
    """What is left of heading and prompt: no text of a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One number of a report, with what it takes to read it (a row of `measurements`)."""

    kind: str
    """A lower-case name: "extraction", "utility", ... or a plugin's own."""
    plugin: str
    metric: str
    """A lower-case name likewise; docs/report-fields.md has those that tables know."""
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    hits: int | None = None
    chance: float | None = None
    baseline: float | None = None
    reason: str = ""
    """Why `value` is None."""
    scope: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def rate(
        cls,
        hits: int,
        n: int,
        *,
        kind: str,
        plugin: str,
        metric: str,
        scope: Mapping[str, object],
        chance: float | None = None,
        baseline: float | None = None,
        reason: str = "",
    ) -> "Measurement":
        """Return the share `hits` / `n` of independent trials with its Wilson interval.

        Where `n` is 0 it is missing, for `reason`. Raises ValueError for more hits than trials.
        """
        if not n:
            return cls.missing(reason, kind=kind, plugin=plugin, metric=metric, scope=scope, n=n,
                               chance=chance, baseline=baseline)  # fmt: skip
        return cls.mean(wilson(hits, n), n, kind=kind, plugin=plugin, metric=metric, scope=scope,
                        hits=hits, chance=chance, baseline=baseline)  # fmt: skip

    @classmethod
    def mean(
        cls,
        estimate: Estimate,
        n: int,
        *,
        kind: str,
        plugin: str,
        metric: str,
        scope: Mapping[str, object],
        hits: int | None = None,
        chance: float | None = None,
        baseline: float | None = None,
    ) -> "Measurement":
        """Return a mean of `n` values, in their unit, or a share of `n` trials that are related.

        Of a share `hits` says how many of the trials counted.
        """
        return cls(
            kind=kind,
            plugin=plugin,
            metric=metric,
            value=estimate.value,
            low=estimate.low,
            high=estimate.high,
            n=n,
            hits=hits,
            chance=chance,
            baseline=baseline,
            scope=scope,
        )

    @classmethod
    def missing(
        cls,
        reason: str,
        *,
        kind: str,
        plugin: str,
        metric: str,
        scope: Mapping[str, object],
        n: int | None = None,
        chance: float | None = None,
        baseline: float | None = None,
    ) -> "Measurement":
        """Return a number that could not be measured, and the `reason`, which may not be empty."""
        if not reason:
            raise ValueError(f"{metric} is missing for no reason.")
        return cls(
            kind=kind,
            plugin=plugin,
            metric=metric,
            value=None,
            n=n,
            chance=chance,
            baseline=baseline,
            reason=reason,
            scope=scope,
        )


Severity = Literal["high", "medium", "low", "unverified"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One leak: what kind, how bad, and evidence, whose strings the report masks."""

    id: str
    severity: Severity
    label: str
    measurement: str
    evidence: Mapping[str, object]
    """What JSON holds. "text" is what leaked; its mask stands in its place."""
    safe: tuple[str, ...] = ()
    """Fields of the evidence whose strings are not personal data: all others are masked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A statement of a paper, and whether the measurements bear it out."""

    id: str
    source: str
    statement: str
    holds: bool | None
    detail: str = ""
