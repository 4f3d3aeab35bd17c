"""How fast a model answers here, tried on a few questions."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from fedaudit.api.engine import Engine, GenerationBatch
from fedaudit.api.records import Document, GenerationRequest, Target
from fedaudit.assessment.cost import Cost

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
