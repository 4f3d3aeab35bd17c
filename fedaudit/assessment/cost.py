"""What each step of an audit asks, before anything is asked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedaudit.api.records import Document
from fedaudit.api.templates import PromptTemplate, template
from fedaudit.audit.exposure.request import ExposureRequest
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
"""Documents of a file, at most, that a detector reads to tell how much there is to ask."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What is asked of the tuned model; its base is asked the same."""

    continuations: int = 0
    tokens: int = 0
    """Tokens that all continuations may have together, at most."""
    scored: int = 0
    """Texts whose probability is computed."""
    unknown: tuple[str, ...] = ()
    """Attacks of which nobody can say it before they run."""
    estimated: bool = False
    """Whether it rests on what a detector finds in a sample of the documents."""

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.continuations + other.continuations,
            self.tokens + other.tokens,
            self.scored + other.scored,
            (*self.unknown, *other.unknown),
            self.estimated or other.estimated,
        )

    def describe(self) -> str:
        """Return it in words."""
        parts = [
            f"{self.continuations:,} continuations of {self.tokens:,} tokens at most",
            f"{self.scored:,} texts scored",
        ]
        known = [
            part for part, n in zip(parts, (self.continuations, self.scored), strict=True) if n
        ]
        known += [f"what {name} asks is not known before" for name in self.unknown]
        return ("roughly " if self.estimated else "") + (", ".join(known) or "nothing")


@dataclass(frozen=True, slots=True)
class Corpora:
    """The documents of files, each read once."""

    form: PromptTemplate
    detector: str = "names"
    """What tells of a sample how much personal data there is where nobody has annotated it."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The detector's."""
    _read: dict[Path, list[Document]] = field(default_factory=dict)

    def of(self, path: Path | None) -> list[Document]:
        """Return the documents of a file; nothing of an empty one."""
        if path is None or corpus.is_empty(path):
            return []
        if path not in self._read:
            self._read[path] = list(corpus.read(path, self.form))
        return self._read[path]

    def count_spans(self, path: Path | None) -> tuple[int, bool]:
        """Return how many pieces of personal data a file's documents have, and if by a sample."""
        found = self.of(path)
        bare = [one for one in found if one.pii is None and not one.is_prompt]
        known = sum(len(one.pii or ()) for one in found)
        if not bare:
            return known, False
        sample, _ = annotate(bare[:SAMPLE], self.detector, self.options)
        each = sum(len(one.pii or ()) for one in sample) / len(sample)
        return known + round(each * len(bare)), True


def corpora(audited: AuditTarget, request: AuditRequest) -> Corpora:
    """Return what reads documents as an audit of this target does."""
    form = audited.federation.template if audited.federation else template(request.template)
    return Corpora(form, request.detector, request.options.get(request.detector, {}))


def cost_of(request: AuditRequest, files: Corpora) -> Cost:
    """Return what a step asks."""
    if isinstance(request, ExtractionRequest):
        costs = [_attack(name, request, files) for name in request.attacks]
        return sum(costs, Cost())
    if isinstance(request, InferenceRequest):
        attack = _made(request, "ranking")
        spans, estimated = files.count_spans(request.data)
        scored = min(attack.sentences, spans) * max(attack.candidates)
        return Cost(scored=scored, estimated=estimated)
    if isinstance(request, CrossClientRequest):
        attack = _made(request, "contextual")
        every = [files.count_spans(Path(one.path)) for one in request.clients]
        asked = sum(min(request.budget, spans) for spans, _ in every) * attack.samples
        estimated = any(one for _, one in every)
        return Cost(asked, asked * attack.new_tokens, estimated=estimated)
    if isinstance(request, MemorizationRequest):
        own = (len(files.of(Path(one.path))) for one in request.clients)
        asked = sum(min(request.protocol.sample, count) for count in own)
        return Cost(asked, asked * request.protocol.new_tokens)
    return _canaries(request) if isinstance(request, ExposureRequest) else Cost()


def _canaries(request: ExposureRequest) -> Cost:
    found = canary_file.read(request.canaries)
    whole = ranking.is_enumerable(found, request.space_limit)
    references = found.space.size if whole else request.references
    return Cost(scored=len({one.prefix for one in found.canaries}) * references)


def _attack(name: str, request: ExtractionRequest, files: Corpora) -> Cost:
    known = _ATTACKS.get(name)
    return known(_made(request, name), request, files) if known else Cost(unknown=(name,))


def _contextual(attack: Any, request: ExtractionRequest, files: Corpora) -> Cost:
    spans, estimated = files.count_spans(request.prefixes)
    asked = spans * attack.samples
    return Cost(asked, asked * attack.new_tokens, estimated=estimated)


def _verbatim(attack: Any, request: ExtractionRequest, files: Corpora) -> Cost:
    count = len(files.of(request.victim or request.prefixes))
    asked = min(attack.documents or count, count)
    return Cost(asked, asked * attack.suffix)


def _membership(attack: Any, request: ExtractionRequest, files: Corpora) -> Cost:
    tried = files.of(request.victim or request.prefixes)
    count = len(tried) + len(files.of(request.held_out))
    return Cost(scored=count * (1 + attack.neighbours))


def _untargeted(attack: Any, _request: ExtractionRequest, _files: Corpora) -> Cost:
    return Cost(attack.samples, attack.samples * attack.new_tokens)


_ATTACKS: Mapping[str, Callable[[Any, ExtractionRequest, Corpora], Cost]] = {
    "contextual": _contextual,
    "verbatim": _verbatim,
    "membership": _membership,
    "untargeted": _untargeted,
}


def _made(request: AuditRequest, name: str) -> Any:
    return registry.create("attack", name, request.options.get(name))
