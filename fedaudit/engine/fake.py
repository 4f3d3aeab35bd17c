"""An engine without a model, for tests of plugins: its answers are prepared by the test."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from fedaudit.api.engine import (
    GenerationBatch,
    LogProbabilities,
    PrefixProbabilities,
    PrefixProbabilityRequest,
    TokenRows,
    TokenStatistics,
)
from fedaudit.api.errors import InputError
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Completion, GenerationRequest, SamplingParams, Target, Tokens

_TOKEN = re.compile(r"\s*\w+|\s*[^\w\s]|\s+")


class FakeEngine:
    """Continues prompts with `answer(target, prompt, sample)`; tokens are words.

    `likelihood(target, token, before)` gives the log-probability of a token; by default it is -1
    for every token. `chance(target, prompt, string)` gives the exact probability that a completion
    begins with a string; without it the engine has no exact probabilities. `asked` records every
    request, for a test to inspect.
    """

    context_length = 1_000_000

    def __init__(
        self,
        answer: Callable[[Target, str, int], str],
        *,
        likelihood: Callable[[Target, str, str], float] = lambda target, token, before: -1.0,
        chance: Callable[[Target, str, str], float] | None = None,
        prompt_starts: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        self.answer, self.likelihood, self.chance = answer, likelihood, chance
        self.prompt_starts: Mapping[str, tuple[int, ...]] = prompt_starts or {"bare": ()}
        self.asked: list[tuple[Target, GenerationRequest]] = []
        self._words: list[str] = []
        self._ids: dict[str, int] = {}

    def tokenize(self, texts: Sequence[str]) -> list[Tokens]:
        """Split texts into words, each with the white space before it."""
        cut = [list(_TOKEN.finditer(text)) for text in texts]
        return [
            Tokens(tuple(self._id(m[0]) for m in words), tuple(m.span() for m in words))
            for words in cut
        ]

    def generate(
        self, target: Target, batch: GenerationBatch, *, progress: Progress = no_progress
    ) -> list[Completion]:
        """Answer every sample of every prompt."""
        self.asked += [(target, request) for request in batch.requests]
        progress(len(batch), len(batch))
        return [
            Completion(
                tuple(self.answer(target, self._text(p.prompt), s) for s in range(p.samples))
            )
            for p in batch.requests
        ]

    def answers(
        self,
        targets: Sequence[Target],
        questions: TokenRows,
        *,
        new: int,
        decoding: SamplingParams = SamplingParams(temperature=0),
        progress: Progress = no_progress,
    ) -> list[list[Completion]]:
        """Answer every question for every target."""
        requests = [
            GenerationRequest(prompt=tuple(q), samples=1, max_new_tokens=new) for q in questions
        ]
        completions = [
            self.generate(target, GenerationBatch(requests, seed=0)) for target in targets
        ]
        progress(len(questions), len(questions))
        return [
            [Completion(a.texts, tuple(t.ids for t in self.tokenize(a.texts))) for a in row]
            for row in completions
        ]

    def score(
        self, target: Target, sequences: TokenRows, *, progress: Progress = no_progress
    ) -> LogProbabilities:
        """Score every token but the first with `likelihood`."""
        progress(len(sequences), len(sequences))
        scores, known = [], self._words
        for sequence in sequences:
            words = [known[i] if 0 <= i < len(known) else f"<{i}>" for i in sequence]
            pairs = zip(words[1:], accumulate(words), strict=False)  # a word, and all before it
            scores.append([self.likelihood(target, word, before) for word, before in pairs])
        return scores

    def token_statistics(
        self, target: Target, sequences: TokenRows, *, progress: Progress = no_progress
    ) -> list[TokenStatistics]:
        """Return the statistics of every token, with a mean of -1 and a deviation of 1."""
        return [
            TokenStatistics(
                log_probability=row,
                mean=[-1.0] * len(row),
                deviation=[1.0] * len(row),
                first=[value > -math.log(2) for value in row],
            )
            for row in self.score(target, sequences, progress=progress)
        ]

    def score_groups(
        self, target: Target, groups: Sequence[TokenRows], *, progress: Progress = no_progress
    ) -> list[LogProbabilities]:
        """Score every sequence of every group with `likelihood`."""
        total = sum(map(len, groups))
        progress(total, total)
        return [self.score(target, group) for group in groups]

    def prefix_probabilities(
        self, target: Target, request: PrefixProbabilityRequest, *, progress: Progress = no_progress
    ) -> list[PrefixProbabilities]:
        """Return `chance`, or if it is below the threshold, the bounds [0, threshold] and draws."""
        import numpy as np

        if self.chance is None:
            raise InputError("This engine draws answers only: it knows no exact probabilities.")
        texts, threshold = [self._text(prompt) for prompt in request.prompts], request.threshold
        chances = np.array(
            [[self.chance(target, text, s) for s in request.strings] for text in texts],
            dtype=np.float64,
        ).reshape(len(request), len(request.strings))
        progress(len(request), len(request))
        return [
            PrefixProbabilities(
                least=np.where(row < threshold, 0.0, row),
                most=np.where(row < threshold, threshold, row),
                drawn=np.where(row < threshold, row * draws, 0).round().astype(np.int64),
                rows=1,
            )
            for row, draws in zip(chances, request.trials or [0] * len(request), strict=True)
        ]

    def _id(self, word: str) -> int:
        if word not in self._ids:
            self._ids[word] = len(self._words)
            self._words.append(word)
        return self._ids[word]

    def _text(self, ids: Sequence[int]) -> str:
        return "".join(self._words[i] if 0 <= i < len(self._words) else f"<{i}>" for i in ids)
