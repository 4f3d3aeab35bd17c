"""The requests of each step of an audit, counted beforehand, and the time that they take here."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedaudit.api.engine import Engine, GenerationBatch
from fedaudit.api.records import Document, GenerationRequest, Target
from fedaudit.audit.attacks import AttackInputs
from fedaudit.audit.cross_client import CrossClientInputs
from fedaudit.audit.exposure import ExposureInputs
from fedaudit.audit.input_files import InputFile
from fedaudit.audit.inputs import Inputs
from fedaudit.audit.memorization.run import MemorizationInputs
from fedaudit.audit.request import AuditRequest, InferenceRequest
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
        phrases += [f"what {name} asks is not known before" for name in self.unknown]
        return ("roughly " if self.estimated else "") + (", ".join(phrases) or "nothing")


def _count_spans(file: InputFile, request: AuditRequest) -> tuple[int, bool]:
    """Return the number of PII spans in a file, and whether it is estimated from a sample."""
    bare = [d for d in file.documents if d.pii is None and not d.is_prompt]
    count = sum(len(d.pii or ()) for d in file.documents)
    if not bare:
        return count, False
    sample, _ = annotate(
        bare[:ANNOTATED_SAMPLE], request.detector, request.options.get(request.detector)
    )
    mean = sum(len(d.pii or ()) for d in sample) / len(sample)
    return count + round(mean * len(bare)), True


def _count_held_out(inputs: AttackInputs) -> int:
    """Return the number of held-out records that an audit compares with."""
    return len(inputs.held_out.file.documents) if inputs.held_out else 0


def cost_of(inputs: Inputs[Any]) -> Cost:
    """Return the cost of a step."""
    request = inputs.request
    if isinstance(inputs, AttackInputs) and isinstance(request, InferenceRequest):
        attack = _create_attack(request, "ranking")
        spans, estimated = _count_spans(inputs.tried, request)
        scored = min(attack.sentences, spans) * max(attack.candidates)
        return Cost(scored=scored, estimated=estimated)
    if isinstance(inputs, AttackInputs):
        return sum((_attack(name, inputs) for name in request.attacks), Cost())
    if isinstance(inputs, CrossClientInputs):
        attack = _create_attack(request, "contextual")
        every = [_count_spans(file, request) for file in inputs.clients.values()]
        continuations = sum(min(request.budget, spans) for spans, _ in every) * attack.samples
        estimated = any(is_sample for _, is_sample in every)
        return Cost(continuations, continuations * attack.new_tokens, estimated=estimated)
    if isinstance(inputs, MemorizationInputs):
        counts = (len(file.documents) for file in inputs.clients.values())
        continuations = sum(min(request.protocol.sample, count) for count in counts)
        return Cost(continuations, continuations * request.protocol.new_tokens)
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


def _attack(name: str, inputs: AttackInputs) -> Cost:
    cost_function = _ATTACKS.get(name)
    if cost_function is None:
        return Cost(unknown=(name,))
    return cost_function(_create_attack(inputs.request, name), inputs)


def _contextual(attack: Any, inputs: AttackInputs) -> Cost:
    spans, estimated = _count_spans(inputs.attacker, inputs.request)
    continuations = spans * attack.samples
    return Cost(continuations, continuations * attack.new_tokens, estimated=estimated)


def _verbatim(attack: Any, inputs: AttackInputs) -> Cost:
    counts = [len(inputs.tried.documents)]
    if inputs.victim is not None:
        counts.append(_count_held_out(inputs))
    continuations = sum(min(attack.documents or count, count) for count in counts)
    return Cost(continuations, continuations * attack.suffix)


def _membership(attack: Any, inputs: AttackInputs) -> Cost:
    count = len(inputs.tried.documents) + _count_held_out(inputs)
    return Cost(scored=count * (1 + attack.neighbours))


def _untargeted_cost(attack: Any, _inputs: AttackInputs) -> Cost:
    return Cost(attack.samples, attack.samples * attack.new_tokens)


def _benign(attack: Any, _inputs: AttackInputs) -> Cost:
    return Cost(attack.answers, attack.answers * attack.new_tokens)


_ATTACKS: Mapping[str, Callable[[Any, AttackInputs], Cost]] = {
    "contextual": _contextual,
    "verbatim": _verbatim,
    "membership": _membership,
    "untargeted": _untargeted_cost,
    "benign": _benign,
}


def _create_attack(request: AuditRequest, name: str) -> Any:
    return registry.create("attack", name, request.options.get(name))


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
