"""What each step of an audit asks, before anything is asked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.continuations + other.continuations,
            self.tokens + other.tokens,
            self.scored + other.scored,
            (*self.unknown, *other.unknown),
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
        return ", ".join(known) or "nothing"


@dataclass(frozen=True, slots=True)
class Corpora:
    """The documents of files, each read once."""

    form: PromptTemplate
    _read: dict[Path, list[Document]]

    def of(self, path: Path | None) -> list[Document]:
        """Return the documents of a file; nothing of an empty one."""
        if path is None or corpus.is_empty(path):
            return []
        if path not in self._read:
            self._read[path] = list(corpus.read(path, self.form))
        return self._read[path]


def corpora(audited: AuditTarget, name: str) -> Corpora:
    """Return what reads documents as an audit of this target does."""
    return Corpora(audited.federation.template if audited.federation else template(name), {})


def cost_of(request: AuditRequest, files: Corpora) -> Cost:
    """Return what a step asks; of documents that nobody annotated, too little."""
    if isinstance(request, ExtractionRequest):
        costs = [_attack(name, request, files) for name in request.attacks]
        return sum(costs, Cost())
    if isinstance(request, InferenceRequest):
        attack = _made(request, "ranking")
        spans = _spans(files.of(request.data))
        return Cost(scored=min(attack.sentences, spans) * max(attack.candidates))
    if isinstance(request, CrossClientRequest):
        attack = _made(request, "contextual")
        asked = sum(
            min(request.budget, _spans(files.of(Path(one.path)))) for one in request.clients
        )
        return Cost(asked * attack.samples, asked * attack.samples * attack.new_tokens)
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
    asked = _spans(files.of(request.prefixes)) * attack.samples
    return Cost(asked, asked * attack.new_tokens)


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


def _spans(documents: list[Document]) -> int:
    return sum(len(one.pii or ()) for one in documents)
