"""The check that the adapter changes the base, since the audit would otherwise be of the base."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from fedaudit.api.abilities import missing_abilities, why_lacking
from fedaudit.api.engine import Engine, GenerationBatch, LogProbabilities, text_start
from fedaudit.api.errors import NoEffectError, TargetError
from fedaudit.api.records import Document, GenerationRequest, SamplingParams, Target
from fedaudit.audit.preflight import instrument

TEXTS, TOKENS = 32, 128
MIN_CHANGE_NATS = 1e-3
"""The change of ln p, in nats, below which an adapter has no effect."""
NOISE_FACTOR = 2.0
"""For a model behind a server, the change must be at least this many times as large as the
difference between two scores of the base."""
PROMPTS, PROMPT_TOKENS, NEW_TOKENS = 16, 24, 16
"""The number of prompts, tokens per prompt and new tokens, if only completions can be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterEffect:
    """The adapter's change of ln p on the auditor's own texts, in nats per token."""

    texts: int
    mean_gain: float
    """The mean of ln p under the tuned model minus ln p under the base."""
    largest_change: float
    """The largest absolute change of a token."""
    instrument: Mapping[str, float | str] = field(default_factory=dict)
    """The numbers of `preflight.instrument`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerEffect:
    """The adapter's change of greedy completions, for a model that cannot score texts."""

    prompts: int
    changed: int
    """The number of prompts that the tuned model and the base continue differently."""
    unsteady: int
    """The number of prompts that the base continues differently the second time."""


def measure(
    engine: Engine,
    tuned: Target,
    base: Target,
    documents: Sequence[Document],
    victim: Sequence[Document] = (),
) -> AdapterEffect | AnswerEffect:
    """Return the adapter's effect on `documents`; raises NoEffectError if there is none.

    The instrument is calibrated on the same texts; the `victim`'s must be readable too. Raises
    TargetError if a server's scores vary too much for the effect to be seen, and InputError for a
    tokenizer that loses letters or digits.
    """
    texts = sorted({d.text for d in documents})[:TEXTS]
    if why_lacking(engine, {"score"}):
        return _of_answers(engine, tuned, base, texts)
    begin = text_start(engine)
    longest = min(TOKENS, max(1, engine.context_length - len(begin)))
    rows = [(*begin, *t.ids[:longest]) for t in engine.tokenize(texts)]
    # One model after the other, as the attacks will score them.
    with_, without = engine.score(tuned, rows), engine.score(base, rows)
    changes = _differences(with_, without)
    largest, least = max(map(abs, changes), default=0.0), MIN_CHANGE_NATS
    if missing_abilities(engine):  # a server, whose scores may vary from call to call
        again = _differences(engine.score(base, rows), without)
        least = max(MIN_CHANGE_NATS, NOISE_FACTOR * max(map(abs, again), default=0.0))
    if MIN_CHANGE_NATS <= largest < least:
        raise TargetError(
            f"The base scores the same texts differently from one time to the next, by up to "
            f"{least / NOISE_FACTOR:.1g} nats a token, so that nothing can be told from scores: "
            "leave them out with --set endpoint.scoring=false, or see whether they are steady with "
            "--set endpoint.concurrency=1."
        )
    if largest < least:
        raise NoEffectError(
            f"The adapter {tuned.adapter or tuned.name} has no effect: on {len(rows)} texts it "
            f"changes no token's log-probability by more than {largest:.1g}. Is it the initial "
            "adapter, or one for another base?"
        )
    read = [d.text for d in (*documents, *victim)]
    return AdapterEffect(
        texts=len(rows),
        mean_gain=sum(changes) / len(changes),
        largest_change=largest,
        instrument=instrument.check(engine, tuned, rows, without, with_, read),
    )


def _differences(left: LogProbabilities, right: LogProbabilities) -> list[float]:
    return [
        a - b
        for row, other_row in zip(left, right, strict=True)
        for a, b in zip(row, other_row, strict=True)
    ]


def _of_answers(engine: Engine, tuned: Target, base: Target, texts: Sequence[str]) -> AnswerEffect:
    """Return the numbers of greedy completions that differ between models, and within the base."""
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
    """Return the report's table about an effect; empty without an adapter."""
    found = asdict(effect) if effect else {}
    numbers = found.pop("instrument", {})
    return {**found, **numbers}
