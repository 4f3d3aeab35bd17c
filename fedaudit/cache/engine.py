"""An engine that keeps its answers in a cache, so that any interrupted attack can resume.

Attacks with prefixes keep less (`extraction.sampling`): only which target strings an answer has.
Here whole answers are kept, texts and scores, because only the attack knows how it uses them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import groupby, islice
from typing import Any, TypeVar

from fedaudit.api.engine import (
    Engine,
    EngineWrapper,
    GenerationBatch,
    LogProbabilities,
    TokenRows,
    TokenStatistics,
)
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Completion, Target
from fedaudit.cache.answers import AnswerCache, batch_size, target_identity

FIRST = 2**14
"""Tokens of a first batch, read and generated, small so that it is soon kept."""
ROUNDING = 1e-3
"""How far above 0 a log-probability may be, by rounding."""
NUMBERS = (float, float, float, bool)
"""The types of the numbers in the four lists of a text's statistics."""
ROOM = 2**18
"""The most tokens of a batch of several questions."""

Item = TypeVar("Item")


class CachingEngine(EngineWrapper):
    """Answers from the cache where it can; asks the engine for the rest and keeps its answers.

    In the audit of one shard only the shard's questions are asked. All others get empty answers,
    which are not reported. With `whole`, continuations are not ended where they can begin with none
    of the strings looked for, so that an audit which looks for others finds them here as well. With
    `every`, all questions are the shard's.
    """

    def __init__(
        self, engine: Engine, cache: AnswerCache, *, whole: bool = False, every: bool = False
    ) -> None:
        super().__init__(engine)
        self.cache, self.whole, self.every = cache, whole, every

    def for_follow_ups(self) -> Engine:
        """Return an engine of the same cache by which this shard asks every question."""
        return CachingEngine(self.engine, self.cache, whole=self.whole, every=True)

    def generate(
        self, target: Target, batch: GenerationBatch, *, progress: Progress = no_progress
    ) -> list[Completion]:
        """Continue every prompt."""
        batch = replace(batch, stop_strings=None) if self.whole else batch
        requests = batch.requests

        def ask(asked: Sequence[int], progress: Progress) -> list[Any]:
            piece = [requests[index] for index in asked]
            completions = self.engine.generate(
                target, replace(batch, requests=piece), progress=progress
            )
            return [(completion.texts, completion.tokens) for completion in completions]

        stop = () if batch.stop_strings is None else (batch.stop_strings,)
        answers = self._answer(
            ("generate", *_target_key(target), batch.seed, batch.decoding, *stop),
            requests,
            prompts=[request.prompt for request in requests],
            sizes=[request.samples * request.max_new_tokens for request in requests],
            ask=ask,
            fits=lambda request, answer: _is_completion(request.samples, answer),
            empty=lambda request: ([""] * request.samples, []),
            progress=progress,
        )
        return [Completion(tuple(texts), tuple(map(tuple, tokens))) for texts, tokens in answers]

    def score(
        self, target: Target, sequences: TokenRows, *, progress: Progress = no_progress
    ) -> LogProbabilities:
        """Score every sequence."""
        return self._answer(
            ("score", *_target_key(target)),
            sequences,
            prompts=sequences,
            sizes=list(map(len, sequences)),
            ask=lambda asked, progress: self.engine.score(
                target, [sequences[index] for index in asked], progress=progress
            ),
            fits=_is_score_row,
            empty=_zeros,
            progress=progress,
        )

    def token_statistics(
        self, target: Target, sequences: TokenRows, *, progress: Progress = no_progress
    ) -> list[TokenStatistics]:
        """Measure every token of every sequence."""

        def ask(asked: Sequence[int], progress: Progress) -> list[Any]:
            piece = [sequences[index] for index in asked]
            statistics = self.engine.token_statistics(target, piece, progress=progress)
            return [
                [list(s.log_probability), list(s.mean), list(s.deviation), list(s.first)]
                for s in statistics
            ]

        answers = self._answer(
            ("statistics", *_target_key(target)),
            sequences,
            prompts=sequences,
            sizes=list(map(len, sequences)),
            ask=ask,
            fits=_is_statistics,
            empty=lambda sequence: [*[_zeros(sequence)] * 3, [False] * len(_zeros(sequence))],
            progress=progress,
        )
        return [TokenStatistics(*answer) for answer in answers]

    def score_groups(
        self, target: Target, groups: Sequence[TokenRows], *, progress: Progress = no_progress
    ) -> list[LogProbabilities]:
        """Score every sequence of every group; a group is of one shard."""
        sequences = [sequence for group in groups for sequence in group]
        group_of = [number for number, group in enumerate(groups) for _ in group]

        def ask(asked: Sequence[int], progress: Progress) -> list[Any]:
            missing = [
                [sequences[index] for index in indices]
                for _, indices in groupby(asked, group_of.__getitem__)
            ]
            scored = self.engine.score_groups(target, missing, progress=progress)
            return [row for rows in scored for row in rows]

        rows = self._answer(
            ("groups", *_target_key(target)),
            sequences,
            prompts=[groups[number][0] for number in group_of],
            sizes=list(map(len, sequences)),
            ask=ask,
            fits=_is_score_row,
            empty=_zeros,
            progress=progress,
        )
        left = iter(rows)
        return [list(islice(left, len(group))) for group in groups]

    def _answer(
        self,
        identity: object,
        questions: Sequence[Item],
        *,
        prompts: Sequence[Sequence[int]],
        sizes: Sequence[int],
        ask: Callable[[Sequence[int], Progress], list[Any]],
        fits: Callable[[Item, Any], bool],
        empty: Callable[[Item], Any],
        progress: Progress,
    ) -> list[Any]:
        """Return the answer to every question; an `empty` one to questions of another shard.

        `sizes` are the tokens of each question; `ask` answers those with the given indices, `fits`
        tells whether a value from the cache is a valid answer to a question.
        """
        answers: list[Any] = [None] * len(questions)
        done, total = 0, sum(sizes)
        mine = [i for i, p in enumerate(prompts) if self.every or self.cache.shard.has(p)]
        for batch in _batches(mine, sizes):
            size = sum(sizes[index] for index in batch)
            by_digest: dict[bytes, list[int]] = {}
            for index in batch:
                digest = blake2b(repr(questions[index]).encode(), digest_size=16).digest()
                by_digest.setdefault(digest, []).append(index)
            kept = self.cache.get(identity, list(by_digest))
            known = {
                d: value for d, value in zip(by_digest, kept, strict=True) if value is not None
            }
            if missing := [digest for digest in by_digest if digest not in known]:
                asked = [by_digest[digest][0] for digest in missing]
                fresh = ask(asked, _share(progress, done, size, total))
                self.cache.add(identity, missing, fresh, len(fresh))
                known |= dict(zip(missing, fresh, strict=True))
            for digest, indices in by_digest.items():
                if digest not in missing and not fits(questions[indices[0]], known[digest]):
                    raise self.cache.broken("an answer does not match its question")
                for index in indices:
                    answers[index] = known[digest]
            done += size
            progress(done, total)
        return [
            empty(question) if answer is None else answer
            for question, answer in zip(questions, answers, strict=True)
        ]


def _batches(questions: Sequence[int], sizes: Sequence[int]) -> Iterator[list[int]]:
    """Yield the indices of questions in batches of at most ROOM tokens or one question."""
    batch: list[int] = []
    before = size = 0
    for index in questions:
        batch.append(index)
        size += sizes[index]
        if size >= batch_size(before, FIRST, ROOM):
            yield batch
            before += size
            batch, size = [], 0
    if batch:
        yield batch


def _is_completion(samples: int, answer: Any) -> bool:
    """Tell whether an answer has a text per sample, and token ids for all texts or for none."""
    if not isinstance(answer, list) or len(answer) != 2:
        return False
    texts, tokens = answer
    if not (isinstance(texts, list) and isinstance(tokens, list)):
        return False
    return (
        len(texts) == samples
        and all(isinstance(text, str) for text in texts)
        and len(tokens) in (0, samples)
        and all(isinstance(row, list) and {type(token) for token in row} <= {int} for row in tokens)
    )


def _is_score_row(sequence: Sequence[int], answer: Any) -> bool:
    """Tell whether an answer holds a log-probability for every token but the first."""
    return (
        isinstance(answer, list)
        and len(answer) == max(0, len(sequence) - 1)
        and all(type(score) is float and score <= ROUNDING for score in answer)
    )


def _is_statistics(sequence: Sequence[int], answer: Any) -> bool:
    """Tell whether an answer has the form in which the cache keeps a text's statistics."""
    if not isinstance(answer, list) or len(answer) != len(NUMBERS):
        return False
    most = max(0, len(sequence) - 1)
    if answer[1] == answer[2] == []:  # a server does not return them
        answer = [answer[0], [0.0] * most, [0.0] * most, answer[3] or [False] * most]
    return all(
        isinstance(row, list) and len(row) == most and {type(value) for value in row} <= {kind}
        for row, kind in zip(answer, NUMBERS, strict=True)
    )


def _share(progress: Progress, before: int, size: int, total: int) -> Progress:
    """Return a progress function that reports a piece as its share of the total."""

    def report_progress(done: int, piece_total: int) -> None:
        progress(before + size * done // max(piece_total, 1), total)

    return report_progress


def _target_key(target: Target) -> tuple[str | None, str | None]:
    return target_identity(target), target.heading


def _zeros(sequence: Sequence[int]) -> list[float]:
    return [0.0] * max(0, len(sequence) - 1)
