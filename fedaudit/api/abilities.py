"""What may be asked of an engine: all of it of a model in memory, less of a server over HTTP."""

from collections.abc import Collection, Mapping
from typing import Any, Literal

from fedaudit.api.engine import Engine, EngineWrapper
from fedaudit.api.records import SamplingParams

Ability = Literal["continue", "sample", "top_k", "top_p", "score", "statistics", "exact", "weights"]
"""To continue prompts greedily; to draw continuations; to draw among the top_k or top_p alone; to
give the log-probabilities of a text's tokens; those of all other tokens there; exact probabilities
of strings; and to work on the model's weights."""


def missing_abilities(engine: Engine) -> Mapping[str, str]:
    """Return what an engine cannot, and why; nothing of an engine that says nothing of it."""
    inner: Any = engine
    while isinstance(inner, EngineWrapper):
        inner = inner.engine
    found: Mapping[str, str] = getattr(inner, "lacks", {})
    return found


def why_lacking(engine: Engine, needed: Collection[str]) -> str:
    """Return in words why an engine cannot do all that is needed; empty where it can."""
    lacks = missing_abilities(engine)
    return "; ".join(lacks[name] for name in sorted(needed) if name in lacks)


def decoding_abilities(decoding: SamplingParams) -> frozenset[Ability]:
    """Return what an engine must be able to, to continue prompts in a way."""
    if decoding.temperature == 0:
        return frozenset({"continue"})
    needed: set[Ability] = {"continue", "sample"}
    if decoding.top_k:
        needed.add("top_k")
    if decoding.top_p < 1:
        needed.add("top_p")
    return frozenset(needed)
