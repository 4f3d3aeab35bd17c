"""The requests of each step of an audit, counted beforehand, and the time that they take here."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedaudit.api.engine import Engine, GenerationBatch
from fedaudit.api.records import Document, GenerationRequest, Target
from fedaudit.audit.attacks import AttackInputs
from fedaudit.audit.cross_client import CrossClientInputs
from fedaudit.audit.exposure import ExposureInputs
from fedaudit.audit.input_files import InputFile
from fedaudit.audit.inputs import Inputs
from fedaudit.audit.memorization.run import MemorizationInputs
from fedaudit.audit.request import AuditRequest, InferenceRequest, Protocol
from fedaudit.canaries import ranking
from fedaudit.config import registry
from fedaudit.data.annotation import annotate

ANNOTATED_SAMPLE = 100
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

    def __rmul__(self, times: int) -> "Cost":
        return replace(
            self,
            continuations=times * self.continuations,
            tokens=times * self.tokens,
            scored=times * self.scored,
        )

    @property
    def answer_bytes(self) -> int:
        """Approximate bytes on disk of the answers: of each one's key, and of its tokens."""
        return 100 * (self.continuations + self.scored) + 5 * self.tokens

    @property
    def is_counted(self) -> bool:
        """Whether any of it is known, or there is nothing to ask."""
        return bool(self.continuations or self.scored or not self.unknown)

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
        known = ("roughly " if self.estimated and phrases else "") + ", ".join(phrases)
        if not self.unknown:
            return known or "nothing"
        verb = "asks" if len(self.unknown) == 1 else "ask"
        unknown = f"what {', '.join(self.unknown)} {verb} is not known before"
        return f"{known}; {unknown}" if known else unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Numbers of documents and spans that the cost of an attack follows from."""

    attacker: Callable[[], tuple[int, bool]]
    """Counts the PII spans of the attacker's documents; true if estimated from a sample."""
    tried: int
    """Documents that are continued or scored."""
    held_out: int
    """Held-out records that they are compared with."""
    has_victim: bool


def count_spans(
    documents: Sequence[Document], detector: str, options: Mapping[str, Any]
) -> tuple[int, bool]:
    """Return the number of PII spans in documents, and whether it is estimated from a sample."""
    bare = [d for d in documents if d.pii is None and not d.is_prompt]
    count = sum(len(d.pii or ()) for d in documents)
    if not bare:
        return count, False
    sample, _ = annotate(bare[:ANNOTATED_SAMPLE], detector, options.get(detector))
    mean = sum(len(d.pii or ()) for d in sample) / len(sample)
    return count + round(mean * len(bare)), True


def _count_file_spans(file: InputFile, request: AuditRequest) -> tuple[int, bool]:
    return count_spans(file.documents, request.detector, request.options)


def _counts(inputs: AttackInputs) -> Counts:
    return Counts(
        attacker=lambda: _count_file_spans(inputs.attacker, inputs.request),
        tried=len(inputs.tried.documents),
        held_out=len(inputs.held_out.file.documents) if inputs.held_out else 0,
        has_victim=inputs.victim is not None,
    )


def cost_of(inputs: Inputs[Any]) -> Cost:
    """Return the cost of a step."""
    request = inputs.request
    if isinstance(inputs, AttackInputs) and isinstance(request, InferenceRequest):
        return inference_cost(request.options, _count_file_spans(inputs.tried, request))
    if isinstance(inputs, AttackInputs):
        return attacks_cost(request.attacks, request.options, _counts(inputs))
    if isinstance(inputs, CrossClientInputs):
        attack = _create_attack("contextual", request.options)
        every = [_count_file_spans(file, request) for file in inputs.clients.values()]
        continuations = sum(min(request.budget, spans) for spans, _ in every) * attack.samples
        estimated = any(is_sample for _, is_sample in every)
        return Cost(continuations, continuations * attack.new_tokens, estimated=estimated)
    if isinstance(inputs, MemorizationInputs):
        counts = [len(file.documents) for file in inputs.clients.values()]
        return memorization_cost(request.protocol, counts)
    return _canaries(inputs) if isinstance(inputs, ExposureInputs) else Cost()


def documents_of(inputs: Inputs[Any]) -> Sequence[Document]:
    """Return documents that a step asks about, to try a model's speed on."""
    if isinstance(inputs, AttackInputs):
        return inputs.tried.documents
    if isinstance(inputs, CrossClientInputs | MemorizationInputs):
        return next((file.documents for file in inputs.clients.values()), ())
    return ()


def _canaries(inputs: ExposureInputs) -> Cost:
    canaries, request = inputs.canaries, inputs.request
    enumerable = ranking.is_enumerable(canaries, request.space_limit)
    references = canaries.space.size if enumerable else request.references
    return Cost(scored=len({canary.prefix for canary in canaries.canaries}) * references)


def attacks_cost(names: Iterable[str], options: Mapping[str, Any], counts: Counts) -> Cost:
    """Return the cost of attacks on documents of these counts."""
    return sum((_attack(name, options, counts) for name in names), Cost())


def inference_cost(options: Mapping[str, Any], spans: tuple[int, bool]) -> Cost:
    """Return the cost of ranking candidates for a victim's spans."""
    attack = _create_attack("ranking", options)
    scored = min(attack.sentences, spans[0]) * max(attack.candidates)
    return Cost(scored=scored, estimated=spans[1])


def memorization_cost(protocol: Protocol, documents: Iterable[int]) -> Cost:
    """Return the cost of cross-client memorization with so many documents of each client."""
    continuations = sum(min(protocol.sample, count) for count in documents)
    return Cost(continuations, continuations * protocol.new_tokens)


def _attack(name: str, options: Mapping[str, Any], counts: Counts) -> Cost:
    cost_function = _ATTACKS.get(name)
    if cost_function is None:
        return Cost(unknown=(name,))
    return cost_function(_create_attack(name, options), counts)


def _contextual(attack: Any, counts: Counts) -> Cost:
    spans, estimated = counts.attacker()
    continuations = spans * attack.samples
    return Cost(continuations, continuations * attack.new_tokens, estimated=estimated)


def _verbatim(attack: Any, counts: Counts) -> Cost:
    sets = [counts.tried, counts.held_out] if counts.has_victim else [counts.tried]
    continuations = sum(min(attack.documents or count, count) for count in sets)
    return Cost(continuations, continuations * attack.suffix)


def _membership(attack: Any, counts: Counts) -> Cost:
    return Cost(scored=(counts.tried + counts.held_out) * (1 + attack.neighbours))


def _untargeted_cost(attack: Any, _counts: Counts) -> Cost:
    return Cost(attack.samples, attack.samples * attack.new_tokens)


def _benign(attack: Any, _counts: Counts) -> Cost:
    return Cost(attack.answers, attack.answers * attack.new_tokens)


_ATTACKS: Mapping[str, Callable[[Any, Counts], Cost]] = {
    "contextual": _contextual,
    "verbatim": _verbatim,
    "membership": _membership,
    "untargeted": _untargeted_cost,
    "benign": _benign,
}


def _create_attack(name: str, options: Mapping[str, Any]) -> Any:
    return registry.create("attack", name, options.get(name))


TIMED_CONTINUATIONS, TIMED_TOKENS, TIMED_PROMPT_TOKENS = 64, 10, 50
"""Continuations that are sampled, the tokens of each, and the tokens of its prompt."""
LONGEST = 256
"""Tokens of a text that is scored."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds for a token of a continuation, and for a text that is scored, in batches."""

    token: float
    text: float

    def seconds(self, cost: Cost, models: int = 2) -> float:
        """Return the maximum seconds a step takes on `models` models: answers may end early."""
        return models * (cost.tokens * self.token + cost.scored * self.text)


def try_speed(engine: Engine, target: Target, documents: Sequence[Document]) -> Speed:
    """Return the speed on the beginnings of some documents; raises ValueError without any.

    The first request warms up, and is not counted.
    """
    if not documents:
        raise ValueError("Without documents there is nothing to try.")
    tokens = engine.tokenize([d.text for d in documents[:TIMED_CONTINUATIONS]])
    ids = [text.ids[:LONGEST] for text in tokens if text.ids]
    prompts = list(dict.fromkeys(sequence[:TIMED_PROMPT_TOKENS] for sequence in ids))
    _generate(engine, target, prompts[:1], 1)
    began = time.perf_counter()
    _generate(engine, target, prompts, -(-TIMED_CONTINUATIONS // len(prompts)))
    generation_time = time.perf_counter() - began
    began = time.perf_counter()
    engine.score(target, ids)
    scored = time.perf_counter() - began
    token_count = -(-TIMED_CONTINUATIONS // len(prompts)) * len(prompts) * TIMED_TOKENS
    return Speed(token=generation_time / token_count, text=scored / len(ids))


def _generate(
    engine: Engine, target: Target, prompts: Sequence[tuple[int, ...]], samples: int
) -> None:
    requests = [
        GenerationRequest(prompt=prompt, samples=samples, max_new_tokens=TIMED_TOKENS)
        for prompt in prompts
    ]
    engine.generate(target, GenerationBatch(requests, seed=0))
