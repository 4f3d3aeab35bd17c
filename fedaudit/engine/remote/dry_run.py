"""An engine that sends no request, and counts the requests and tokens of an audit instead."""

from collections.abc import Mapping, Sequence
from itertools import cycle, islice

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
from fedaudit.api.records import Completion, Target, Tokens
from fedaudit.engine.remote.abilities import ServerAbilities
from fedaudit.engine.remote.engine import SAMPLES
from fedaudit.engine.remote.spending import CostEstimate
from fedaudit.engine.remote.tokenizer import RemoteTokenizer


class DryRunEngine:
    """Answers as the worst case: the tuned model says every target string, the base says nothing.

    So the requests that follow from an answer are counted too, and the count is an upper bound.
    """

    def __init__(self, tokenizer: RemoteTokenizer, context: int) -> None:
        self.tokenizer, self.context_length = tokenizer, context
        self.prompt_starts: Mapping[str, tuple[int, ...]] = tokenizer.starts
        self.lacks = ServerAbilities(scoring="echo" if tokenizer.own else "").lacks()
        self.estimate = CostEstimate()

    def tokenize(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokenise as the server's engine will."""
        return self.tokenizer.tokenize(texts)

    def generate(
        self, target: Target, batch: GenerationBatch, *, progress: Progress = no_progress
    ) -> list[Completion]:
        """Count every request; with an adapter, return the stop strings in turn, else nothing."""
        for request in batch.requests:
            count = request.samples if batch.decoding.temperature else 1
            requests = -(-count // SAMPLES)
            self.estimate.add(len(request.prompt), request.max_new_tokens, count, requests)
        if target.adapter is None:
            return [Completion(("",) * request.samples) for request in batch.requests]
        texts = cycle(batch.stop_strings or (" ",))
        return [Completion(tuple(islice(texts, request.samples))) for request in batch.requests]

    def score(
        self, target: Target, sequences: TokenRows, *, progress: Progress = no_progress
    ) -> LogProbabilities:
        """Count every text; each token has ln p = -1 with an adapter, and -2 without."""
        for sequence in sequences:
            self.estimate.add(len(sequence), 1, 1, 1)
        value = -2.0 if target.adapter is None else -1.0
        return [[value] * max(0, len(sequence) - 1) for sequence in sequences]

    def score_groups(
        self, target: Target, groups: Sequence[TokenRows], *, progress: Progress = no_progress
    ) -> list[LogProbabilities]:
        """Score every sequence of every group."""
        return [self.score(target, group) for group in groups]

    def token_statistics(
        self, target: Target, sequences: TokenRows, *, progress: Progress = no_progress
    ) -> list[TokenStatistics]:
        """Score every sequence, with no token as the likeliest."""
        return [
            TokenStatistics(log_probability=row, mean=(), deviation=(), first=[False] * len(row))
            for row in self.score(target, sequences)
        ]

    def prefix_probabilities(
        self, target: Target, request: PrefixProbabilityRequest, *, progress: Progress = no_progress
    ) -> list[PrefixProbabilities]:
        """Raise InputError, since exact probabilities need the model itself."""
        raise InputError("No server computes exact probabilities.")
