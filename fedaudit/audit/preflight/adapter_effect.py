"""Does the adapter change the base at all? An audit of a dead adapter audits the base."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from fedaudit.api.abilities import missing_abilities, why_lacking
from fedaudit.api.engine import Engine, GenerationBatch, LogProbabilities, text_start
from fedaudit.api.errors import NoEffectError
from fedaudit.api.records import Document, GenerationRequest, SamplingParams, Target

TEXTS, TOKENS = 32, 128
MIN_CHANGE_NATS = 1e-3
"""A change of log-probability, in nats, below which an adapter has done nothing."""
NOISE_FACTOR = 2.0
"""For an engine outside this process a change must be this many times as large as the difference
between two answers of the same model."""
PROMPTS, PROMPT_TOKENS, NEW_TOKENS = 16, 24, 16
"""Prompts, tokens of each, and tokens of an answer, where answers are all that can be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterEffect:
    """What the adapter changes on the auditor's own texts, in nats a token."""

    texts: int
    mean_gain: float
    """How much likelier the tuned model finds the texts than the base does."""
    largest_change: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerEffect:
    """What the adapter changes of greedy answers, where no text can be scored."""

    prompts: int
    changed: int
    """Prompts that the tuned model continues otherwise than the base."""
    unsteady: int
    """Prompts that the base continues otherwise when it is asked again."""


def measure(
    engine: Engine, tuned: Target, base: Target, documents: Sequence[Document]
) -> AdapterEffect | AnswerEffect:
    """Return the adapter's effect; raises NoEffectError when there is none."""
    texts = sorted({d.text for d in documents})[:TEXTS]
    if why_lacking(engine, {"score"}):
        return _of_answers(engine, tuned, base, texts)
    begin = text_start(engine)
    rows = [(*begin, *t.ids[:TOKENS]) for t in engine.tokenize(texts)]
    # One by one, in the way in which the attacks will ask them.
    with_, without = engine.score(tuned, rows), engine.score(base, rows)
    changes = _differences(with_, without)
    largest, least = max(map(abs, changes), default=0.0), MIN_CHANGE_NATS
    if missing_abilities(engine):  # a server, whose answers may differ from one time to another
        again = _differences(engine.score(base, rows), without)
        least = max(MIN_CHANGE_NATS, NOISE_FACTOR * max(map(abs, again), default=0.0))
    if largest < least:
        raise NoEffectError(
            f"The adapter {tuned.adapter or tuned.name} has no effect: on {len(rows)} texts it "
            f"changes no token's log-probability by more than {largest:.1g}. Is it the initial "
            "adapter, or one for another base?"
        )
    return AdapterEffect(
        texts=len(rows), mean_gain=sum(changes) / len(changes), largest_change=largest
    )


def _differences(left: LogProbabilities, right: LogProbabilities) -> list[float]:
    return [
        a - b
        for row, other_row in zip(left, right, strict=True)
        for a, b in zip(row, other_row, strict=True)
    ]


def _of_answers(engine: Engine, tuned: Target, base: Target, texts: Sequence[str]) -> AnswerEffect:
    """Return how many greedy answers differ, and how many differ when the base is asked again."""
    prompts = {t.ids[:PROMPT_TOKENS] for t in engine.tokenize(texts[:PROMPTS]) if t.ids}
    batch = GenerationBatch(
        [
            GenerationRequest(prompt=p, samples=1, max_new_tokens=NEW_TOKENS)
            for p in sorted(prompts)
        ],
        seed=0,
        decoding=SamplingParams(temperature=0),
    )
    with_, without, again = (engine.generate(target, batch) for target in (tuned, base, base))
    changed = sum(a != b for a, b in zip(with_, without, strict=True))
    unsteady = sum(a != b for a, b in zip(without, again, strict=True))
    if changed <= unsteady:
        raise NoEffectError(
            f"{tuned.adapter or tuned.name} has no effect: of {len(batch)} greedy answers it "
            f"changes {changed}, and the base itself changes {unsteady} when it is asked again. "
            "Does the server serve the adapter under that name?"
        )
    return AnswerEffect(prompts=len(batch), changed=changed, unsteady=unsteady)


def table(effect: AdapterEffect | AnswerEffect | None) -> dict[str, object]:
    """Return what the report says of an effect; empty when there is no adapter."""
    return asdict(effect) if effect else {}
