"""The requests of each step of an audit, counted beforehand, and the time that they take here."""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from statistics import fmean
from typing import Any

from fedaudit.api.cost import Cost, Counts
from fedaudit.api.engine import Engine, GenerationBatch
from fedaudit.api.records import Document, GenerationRequest, Target
from fedaudit.audit import access
from fedaudit.audit.attacks import AttackInputs
from fedaudit.audit.exposure import ExposureInputs
from fedaudit.audit.input_files import InputFile
from fedaudit.audit.inputs import Inputs
from fedaudit.audit.memorization.run import MemorizationInputs
from fedaudit.audit.request import AuditRequest, InferenceRequest, Protocol
from fedaudit.canaries import ranking
from fedaudit.config import registry
from fedaudit.data.annotation import annotate
from fedaudit.metrics.privacy.read_part import tokens_to_read

ANNOTATED_SAMPLE = 100
"""The maximum number of documents in a file that a detector reads to estimate the cost."""


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
    return count + round(mean * len(bare)), len(sample) < len(bare)


def _counts(file: InputFile, request: AuditRequest, most: float = math.inf) -> Counts:
    """Return the counts of a file of documents, `most` of whose spans are asked about."""

    def spans() -> tuple[int, bool]:
        count, estimated = count_spans(file.documents, request.detector, request.options)
        return int(min(count, most)), estimated

    return Counts(spans=spans, tried=len(file.documents), held_out=0, has_victim=False)


def cost_of(inputs: Inputs[Any]) -> Cost:
    """Return the cost of a step."""
    request = inputs.request
    if isinstance(inputs, AttackInputs) and isinstance(request, InferenceRequest):
        asked = _counts(inputs.tried, request)
        return attacks_cost(request.attacks, request.options, asked)
    if isinstance(inputs, AttackInputs) and inputs.matrix:
        counted = [_counts(file, request, most=request.budget) for file in inputs.matrix.values()]
        costs = (attacks_cost(request.attacks, request.options, counts) for counts in counted)
        return sum(costs, Cost())
    if isinstance(inputs, AttackInputs):
        held_out = len(inputs.held_out.file.documents) if inputs.held_out else 0
        counts = replace(
            _counts(inputs.attacker, request),
            tried=len(inputs.tried.documents),
            held_out=held_out,
            has_victim=inputs.victim is not None,
            rounds=len(inputs.others.rounds) if inputs.others.took_part else 0,
        )
        return attacks_cost(request.attacks, request.options, counts)
    if isinstance(inputs, MemorizationInputs):
        sizes = [len(file.documents) for file in inputs.clients.values()]
        return memorization_cost(request.protocol, sizes)
    return _canaries(inputs) if isinstance(inputs, ExposureInputs) else Cost()


def documents_of(inputs: Inputs[Any]) -> Sequence[Document]:
    """Return documents that a step asks about, to try a model's speed on."""
    if isinstance(inputs, AttackInputs):
        return inputs.tried.documents
    if isinstance(inputs, MemorizationInputs):
        return next((file.documents for file in inputs.clients.values()), ())
    return ()


def _canaries(inputs: ExposureInputs) -> Cost:
    canaries, request = inputs.canaries, inputs.request
    enumerable = ranking.is_enumerable(canaries, request.space_limit)
    references = canaries.space.size if enumerable else request.references
    return Cost(scored=len({canary.prefix for canary in canaries.canaries}) * references)


def attacks_cost(names: Iterable[str], options: Mapping[str, Any], counts: Counts) -> Cost:
    """Return the cost of attacks on documents of these counts."""
    attacks = (registry.create("attack", name, options.get(name)) for name in names)
    return sum((attack.cost(counts) for attack in attacks), Cost())


def memorization_cost(protocol: Protocol, documents: Iterable[int]) -> Cost:
    """Return the cost of cross-client memorization with so many documents of each client."""
    continuations = sum(min(protocol.sample, count) for count in documents)
    return Cost(continuations, continuations * protocol.new_tokens)


TIMED_CONTINUATIONS, TIMED_TOKENS, TIMED_PROMPT_TOKENS = 64, 10, 50
"""Continuations that are sampled, the tokens of each, and the tokens of its prompt."""
TIMED_TOTAL = 16_384
"""Tokens of texts that are scored, unless the first text alone has more."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds for a token of a continuation, and for a text that is scored, in batches."""

    token: float
    text: float

    def seconds(self, cost: Cost, models: int = 2) -> float:
        """Return the maximum seconds a step takes on `models` models: answers may end early."""
        return models * (cost.tokens * self.token + cost.scored * self.text)


def speed_here(inputs: Inputs[Any], documents: Sequence[Document]) -> Speed | None:
    """Return the speed of the audited model on this machine; None without documents to try."""
    if not documents:
        return None
    audited = inputs.audited
    engine, _ = access.load_engine(audited, inputs.form, inputs.request)
    target = Target(name="base") if audited.deployment else audited.tuned
    return try_speed(engine, target, documents, trained=audited.trained_tokens)


def try_speed(
    engine: Engine, target: Target, documents: Sequence[Document], *, trained: int = 0
) -> Speed:
    """Return the speed on some documents; raises ValueError without any.

    Of texts as much is scored as attacks read: up to the context, and to the tokens that training
    read, if it is known. The first request warms up, and is not counted.
    """
    if not documents:
        raise ValueError("Without documents there is nothing to try.")
    tokens = engine.tokenize([d.text for d in documents[:TIMED_CONTINUATIONS]])
    longest = tokens_to_read(engine.context_length, 0, trained=trained)
    ids = [text.ids[:longest] for text in tokens if text.ids]
    prompts = list(dict.fromkeys(sequence[:TIMED_PROMPT_TOKENS] for sequence in ids))
    _generate(engine, target, prompts[:1], 1)
    began = time.perf_counter()
    _generate(engine, target, prompts, -(-TIMED_CONTINUATIONS // len(prompts)))
    generation_time = time.perf_counter() - began
    began = time.perf_counter()
    total = accumulate(map(len, ids))
    some = [row for row, until in zip(ids, total, strict=True) if until <= TIMED_TOTAL] or ids[:1]
    engine.score(target, some)
    per_token = (time.perf_counter() - began) / sum(map(len, some))
    token_count = -(-TIMED_CONTINUATIONS // len(prompts)) * len(prompts) * TIMED_TOKENS
    return Speed(token=generation_time / token_count, text=per_token * fmean(map(len, ids)))


def _generate(
    engine: Engine, target: Target, prompts: Sequence[tuple[int, ...]], samples: int
) -> None:
    requests = [
        GenerationRequest(prompt=prompt, samples=samples, max_new_tokens=TIMED_TOKENS)
        for prompt in prompts
    ]
    engine.generate(target, GenerationBatch(requests, seed=0))
