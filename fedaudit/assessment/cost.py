"""What each step of an audit will ask the model, known before anything is asked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedaudit.api.records import Document
from fedaudit.api.templates import PromptTemplate, template
from fedaudit.audit.exposure.request import ExposureRequest
from fedaudit.audit.inputs import held_out
from fedaudit.audit.memorization.request import MemorizationRequest
from fedaudit.audit.request import (
    AuditRequest,
    CrossClientRequest,
    ExtractionRequest,
    InferenceRequest,
)
from fedaudit.audit.target import AuditTarget
from fedaudit.canaries import canary_file, ranking
from fedaudit.config import registry
from fedaudit.data import corpus
from fedaudit.data.annotation import annotate

SAMPLE = 100
"""The maximum number of documents in a file that a detector reads to estimate the cost."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The requests to the tuned model; the base gets the same requests."""

    continuations: int = 0
    tokens: int = 0
    """The maximum number of tokens in all continuations together."""
    scored: int = 0
    """Texts whose probability is computed."""
    unknown: tuple[str, ...] = ()
    """Attacks whose cost is not known before they run."""
    estimated: bool = False
    """Whether the cost is estimated from what a detector finds in a sample of the documents."""

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.continuations + other.continuations,
            self.tokens + other.tokens,
            self.scored + other.scored,
            (*self.unknown, *other.unknown),
            self.estimated or other.estimated,
        )

    def describe(self) -> str:
        """Return the cost in words."""
        quantities = [
            f"{self.continuations:,} continuations of {self.tokens:,} tokens at most",
            f"{self.scored:,} texts scored",
        ]
        phrases = [
            phrase
            for phrase, n in zip(quantities, (self.continuations, self.scored), strict=True)
            if n
        ]
        phrases += [f"what {name} asks is not known before" for name in self.unknown]
        return ("roughly " if self.estimated else "") + (", ".join(phrases) or "nothing")


@dataclass(frozen=True, slots=True)
class Corpora:
    """The documents of files, each read once."""

    form: PromptTemplate
    detector: str = "names"
    """The detector that estimates, from a sample, the personal data of unannotated documents."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The detector's options."""
    audited: AuditTarget | None = None
    """What is audited: a simulation has held-out records of its own."""
    _read: dict[Path, list[Document]] = field(default_factory=dict)

    def read_documents(self, path: Path | None) -> list[Document]:
        """Return the documents of a file; an empty list for an empty file."""
        if path is None or corpus.is_empty(path):
            return []
        if path not in self._read:
            self._read[path] = list(corpus.read(path, self.form))
        return self._read[path]

    def count_held_out(self, request: AuditRequest) -> int:
        """Return the number of held-out records that an audit of the target compares with."""
        if self.audited is None:
            return len(self.read_documents(request.held_out_path))
        return len(self.read_documents(held_out.held_out_path(request, self.audited)))

    def count_spans(self, path: Path | None) -> tuple[int, bool]:
        """Return the number of PII spans in a file, and whether it is estimated from a sample."""
        documents = self.read_documents(path)
        bare = [d for d in documents if d.pii is None and not d.is_prompt]
        count = sum(len(d.pii or ()) for d in documents)
        if not bare:
            return count, False
        sample, _ = annotate(bare[:SAMPLE], self.detector, self.options)
        mean = sum(len(d.pii or ()) for d in sample) / len(sample)
        return count + round(mean * len(bare)), True


def corpora(audited: AuditTarget, request: AuditRequest) -> Corpora:
    """Return the reader of documents that an audit of this target uses."""
    form = audited.federation.template if audited.federation else template(request.template)
    options = request.options.get(request.detector, {})
    return Corpora(form, request.detector, options, audited)


def cost_of(request: AuditRequest, files: Corpora) -> Cost:
    """Return the cost of a step."""
    if isinstance(request, ExtractionRequest):
        costs = [_attack(name, request, files) for name in request.attacks]
        return sum(costs, Cost())
    if isinstance(request, InferenceRequest):
        attack = _create_attack(request, "ranking")
        spans, estimated = files.count_spans(request.data)
        scored = min(attack.sentences, spans) * max(attack.candidates)
        return Cost(scored=scored, estimated=estimated)
    if isinstance(request, CrossClientRequest):
        attack = _create_attack(request, "contextual")
        every = [files.count_spans(Path(client.path)) for client in request.clients]
        continuations = sum(min(request.budget, spans) for spans, _ in every) * attack.samples
        estimated = any(is_sample for _, is_sample in every)
        return Cost(continuations, continuations * attack.new_tokens, estimated=estimated)
    if isinstance(request, MemorizationRequest):
        counts = (len(files.read_documents(Path(client.path))) for client in request.clients)
        continuations = sum(min(request.protocol.sample, count) for count in counts)
        return Cost(continuations, continuations * request.protocol.new_tokens)
    return _canaries(request) if isinstance(request, ExposureRequest) else Cost()


def _canaries(request: ExposureRequest) -> Cost:
    canary_set = canary_file.read(request.canaries)
    enumerable = ranking.is_enumerable(canary_set, request.space_limit)
    references = canary_set.space.size if enumerable else request.references
    return Cost(scored=len({canary.prefix for canary in canary_set.canaries}) * references)


def _attack(name: str, request: ExtractionRequest, files: Corpora) -> Cost:
    cost_function = _ATTACKS.get(name)
    return (
        cost_function(_create_attack(request, name), request, files)
        if cost_function
        else Cost(unknown=(name,))
    )


def _contextual(attack: Any, request: ExtractionRequest, files: Corpora) -> Cost:
    spans, estimated = files.count_spans(request.prefixes)
    continuations = spans * attack.samples
    return Cost(continuations, continuations * attack.new_tokens, estimated=estimated)


def _verbatim(attack: Any, request: ExtractionRequest, files: Corpora) -> Cost:
    counts = [len(files.read_documents(request.victim or request.prefixes))]
    if request.victim is not None:
        counts.append(files.count_held_out(request))
    continuations = sum(min(attack.documents or count, count) for count in counts)
    return Cost(continuations, continuations * attack.suffix)


def _membership(attack: Any, request: ExtractionRequest, files: Corpora) -> Cost:
    documents = files.read_documents(request.victim or request.prefixes)
    count = len(documents) + files.count_held_out(request)
    return Cost(scored=count * (1 + attack.neighbours))


def _untargeted_cost(attack: Any, _request: ExtractionRequest, _files: Corpora) -> Cost:
    return Cost(attack.samples, attack.samples * attack.new_tokens)


def _benign(attack: Any, _request: ExtractionRequest, _files: Corpora) -> Cost:
    return Cost(attack.answers, attack.answers * attack.new_tokens)


_ATTACKS: Mapping[str, Callable[[Any, ExtractionRequest, Corpora], Cost]] = {
    "contextual": _contextual,
    "verbatim": _verbatim,
    "membership": _membership,
    "untargeted": _untargeted_cost,
    "benign": _benign,
}


def _create_attack(request: AuditRequest, name: str) -> Any:
    return registry.create("attack", name, request.options.get(name))
