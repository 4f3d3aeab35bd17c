"""An engine without a model, for tests of plugins: it says what it is told to say."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from fedaudit.api.errors import InputError
from fedaudit.api.plugin import PrefixProbabilities, Progress, no_progress
from fedaudit.api.records import Completion, GenerationRequest, SamplingParams, Target, Tokens

_TOKEN = re.compile(r"\s*\w+|\s*[^\w\s]|\s+")


class FakeEngine:
    """Continues prompts with `answer(target, prompt, sample)`; tokens are words.

    `likelihood(target, token, before)` gives the log-probability of a token; every token has -1
    without it. `asked` keeps all probes, for a test to look at. `chance(target, prompt, string)` is
    the exact probability that a continuation begins with a string; without it there is none.
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
        """Cut texts into words with the white space before them."""
        cut = [list(_TOKEN.finditer(text)) for text in texts]
        return [
            Tokens(tuple(self._id(m[0]) for m in words), tuple(m.span() for m in words))
            for words in cut
        ]

    def generate(
        self,
        target: Target,
        requests: Sequence[GenerationRequest],
        *,
        seed: int,
        decoding: SamplingParams = SamplingParams(),
        strings: Collection[str] | None = None,
        progress: Progress = no_progress,
    ) -> list[Completion]:
        """Answer every sample of every probe."""
        self.asked += [(target, request) for request in requests]
        progress(len(requests), len(requests))
        return [
            Completion(
                tuple(self.answer(target, self._text(p.prompt), s) for s in range(p.samples))
            )
            for p in requests
        ]

    def answers(
        self,
        targets: Sequence[Target],
        questions: Sequence[Sequence[int]],
        *,
        new: int,
        decoding: SamplingParams = SamplingParams(temperature=0),
        progress: Progress = no_progress,
    ) -> list[list[Completion]]:
        """Answer every question for every target."""
        requests = [
            GenerationRequest(prompt=tuple(q), samples=1, max_new_tokens=new) for q in questions
        ]
        found = [self.generate(target, requests, seed=0) for target in targets]
        progress(len(questions), len(questions))
        return [
            [Completion(a.texts, tuple(t.ids for t in self.tokenize(a.texts))) for a in row]
            for row in found
        ]

    def score(
        self,
        target: Target,
        sequences: Sequence[Sequence[int]],
        *,
        progress: Progress = no_progress,
    ) -> list[list[float]]:
        """Score every token but the first by `likelihood`."""
        progress(len(sequences), len(sequences))
        return [
            [
                self.likelihood(target, self._text(s[i : i + 1]), self._text(s[:i]))
                for i in range(1, len(s))
            ]
            for s in sequences
        ]

    def scores(
        self, targets: Sequence[Target], sequences: Sequence[Sequence[int]]
    ) -> list[list[list[float]]]:
        """Score every sequence under every target."""
        return [self.score(target, sequences) for target in targets]

    def score_groups(
        self,
        target: Target,
        groups: Sequence[Sequence[Sequence[int]]],
        *,
        progress: Progress = no_progress,
    ) -> list[list[list[float]]]:
        """Score every sequence of every group by `likelihood`."""
        total = sum(map(len, groups))
        progress(total, total)
        return [self.score(target, group) for group in groups]

    def prefix_probabilities(
        self,
        target: Target,
        prompts: Sequence[Sequence[int]],
        strings: Sequence[str],
        *,
        new: int,
        decoding: SamplingParams = SamplingParams(),
        threshold: float = 4e-3,
        trials: Sequence[int] = (),
        seed: int = 0,
        progress: Progress = no_progress,
    ) -> list[PrefixProbabilities]:
        """Return what `chance` says; of less than the threshold that it is not more, and draws."""
        import numpy as np

        if self.chance is None:
            raise InputError("This engine draws answers only: it knows no exact probabilities.")
        told = np.array(
            [[self.chance(target, self._text(p), s) for s in strings] for p in prompts],
            dtype=np.float64,
        ).reshape(len(prompts), len(strings))
        progress(len(prompts), len(prompts))
        return [
            PrefixProbabilities(
                least=np.where(row < threshold, 0.0, row),
                most=np.where(row < threshold, threshold, row),
                drawn=np.where(row < threshold, row * draws, 0).round().astype(np.int64),
                rows=1,
            )
            for row, draws in zip(told, trials or [0] * len(told), strict=True)
        ]

    def _id(self, word: str) -> int:
        if word not in self._ids:
            self._ids[word] = len(self._words)
            self._words.append(word)
        return self._ids[word]

    def _text(self, ids: Sequence[int]) -> str:
        return "".join(self._words[i] if 0 <= i < len(self._words) else f"<{i}>" for i in ids)
