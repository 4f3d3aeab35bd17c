"""Does the adapter change the base at all? An audit of a dead adapter audits the base."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from fedaudit.api.engine import Engine
from fedaudit.api.errors import NoEffectError
from fedaudit.api.records import Document, Target

TEXTS, TOKENS = 32, 128
NOTHING = 1e-3
"""A change of log-probability, in nats, below which an adapter has done nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterEffect:
    """What the adapter changes on the auditor's own texts, in nats a token."""

    texts: int
    mean_gain: float
    """How much likelier the tuned model finds the texts than the base does."""
    largest_change: float


def measure(
    engine: Engine, tuned: Target, base: Target, documents: Sequence[Document]
) -> AdapterEffect:
    """Return the adapter's effect; raises NoEffectError when there is none."""
    texts = sorted({d.text for d in documents})[:TEXTS]
    begin = engine.prompt_starts.get("bos", ())
    rows = [(*begin, *t.ids[:TOKENS]) for t in engine.tokenize(texts)]
    # One by one, in the way in which the attacks will ask them.
    with_, without = engine.score(tuned, rows), engine.score(base, rows)
    changes = [
        a - b
        for row, other in zip(with_, without, strict=True)
        for a, b in zip(row, other, strict=True)
    ]
    largest = max(map(abs, changes), default=0.0)
    if largest < NOTHING:
        raise NoEffectError(
            f"The adapter {tuned.adapter or tuned.name} has no effect: on {len(rows)} texts it "
            f"changes no token's log-probability by more than {largest:.1g}. Is it the initial "
            "adapter, or one for another base?"
        )
    return AdapterEffect(
        texts=len(rows), mean_gain=sum(changes) / len(changes), largest_change=largest
    )


def table(effect: AdapterEffect | None) -> dict[str, object]:
    """Return what the report says of an effect; empty when there is no adapter."""
    return asdict(effect) if effect else {}
