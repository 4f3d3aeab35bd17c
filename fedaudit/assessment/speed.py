"""How fast a model answers here, tried on a few questions."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from fedaudit.api.engine import Engine, GenerationBatch
from fedaudit.api.records import Document, GenerationRequest, Target
from fedaudit.assessment.cost import Cost

TRIED, LENGTH, PROMPT = 64, 10, 50
"""Continuations that are drawn, how long each is, and how long what it continues."""
LONGEST = 256
"""Tokens of a text that is scored."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds for a token of a continuation, and for a text that is scored, in batches."""

    token: float
    text: float

    def seconds(self, cost: Cost, models: int = 2) -> float:
        """Return how long a step takes of so many models, at most: answers may end early."""
        return models * (cost.tokens * self.token + cost.scored * self.text)


def try_speed(engine: Engine, target: Target, documents: Sequence[Document]) -> Speed:
    """Return the speed on the beginnings of some of these documents; raises ValueError for none.

    What is asked first warms up, and is not counted.
    """
    if not documents:
        raise ValueError("Without documents there is nothing to try.")
    tokens = engine.tokenize([one.text for one in documents[:TRIED]])
    ids = [one.ids[:LONGEST] for one in tokens if one.ids]
    prompts = list(dict.fromkeys(one[:PROMPT] for one in ids))
    _generate(engine, target, prompts[:1], 1)
    began = time.perf_counter()
    _generate(engine, target, prompts, -(-TRIED // len(prompts)))
    drawn = time.perf_counter() - began
    began = time.perf_counter()
    engine.score(target, ids)
    scored = time.perf_counter() - began
    made = -(-TRIED // len(prompts)) * len(prompts) * LENGTH
    return Speed(token=drawn / made, text=scored / len(ids))


def _generate(
    engine: Engine, target: Target, prompts: Sequence[tuple[int, ...]], samples: int
) -> None:
    requests = [
        GenerationRequest(prompt=prompt, samples=samples, max_new_tokens=LENGTH)
        for prompt in prompts
    ]
    engine.generate(target, GenerationBatch(requests, seed=0))
