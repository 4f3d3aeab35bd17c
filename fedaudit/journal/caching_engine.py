"""An engine that keeps its answers in a journal, so that any interrupted attack can resume.

Attacks with prefixes keep less (`extraction.sampling`): only which target strings an answer has.
Here whole answers are kept, texts and scores, because only the attack knows how it uses them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
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
from fedaudit.api.records import Completion, GenerationRequest, Target
from fedaudit.journal import chunk_size
from fedaudit.journal.journal import JournalPass
from fedaudit.journal.shards import AuditJournal, ShardJournal, target_identity

FIRST = 2**14
"""Tokens of a first piece, read and generated, small so that it is soon kept."""
ROUNDING = 1e-3
"""How far above 0 a log-probability may be, by rounding."""
NUMBERS = (float, float, float, bool)
"""The types of the numbers in the four lists of a text's statistics."""
ROOM = 2**18
"""The most tokens of a piece of several questions."""

Item = TypeVar("Item")


class CachingEngine(EngineWrapper):
    """Answers from the journal where it can; asks the engine for the rest and keeps its answers.

    In the audit of one shard only the shard's questions are asked. All others get empty answers,
    which are not reported.
    """

    def __init__(self, engine: Engine, journal: AuditJournal) -> None:
        super().__init__(engine)
        self.journal = journal

    def generate(
        self, target: Target, batch: GenerationBatch, *, progress: Progress = no_progress
    ) -> list[Completion]:
        """Continue every prompt."""
        requests = batch.requests

        def ask(piece: Sequence[GenerationRequest], progress: Progress) -> list[Any]:
            completions = self.engine.generate(
                target, replace(batch, requests=piece), progress=progress
            )
            return [(completion.texts, completion.tokens) for completion in completions]

        stop = () if batch.stop_strings is None else (batch.stop_strings,)
        answers = self._answer_through_journal(
            ("generate", *_target_key(target), batch.seed, batch.decoding, *stop),
            requests,
            prompts=[request.prompt for request in requests],
            sizes=[request.samples * request.max_new_tokens for request in requests],
            counts=[request.samples for request in requests],
            ask=ask,
            fits=lambda request, answer: _is_completion(request.samples, answer),
            progress=progress,
        )
        return [
            Completion(tuple(answer[0]), tuple(map(tuple, answer[1])))
            if answer
            else Completion(("",) * request.samples)
            for request, answer in zip(requests, answers, strict=True)
        ]

    def score(
        self, target: Target, sequences: TokenRows, *, progress: Progress = no_progress
    ) -> LogProbabilities:
        """Score every sequence."""
        answers = self._answer_through_journal(
            ("score", *_target_key(target)),
            sequences,
            prompts=sequences,
            sizes=list(map(len, sequences)),
            counts=[1] * len(sequences),
            ask=lambda piece, progress: self.engine.score(target, piece, progress=progress),
            fits=_is_score_row,
            progress=progress,
        )
        return [
            _zeros(sequence) if answer is None else answer
            for sequence, answer in zip(sequences, answers, strict=True)
        ]

    def token_statistics(
        self, target: Target, sequences: TokenRows, *, progress: Progress = no_progress
    ) -> list[TokenStatistics]:
        """Measure every token of every sequence."""

        def ask(piece: TokenRows, progress: Progress) -> list[Any]:
            statistics = self.engine.token_statistics(target, piece, progress=progress)
            return [
                [list(s.log_probability), list(s.mean), list(s.deviation), list(s.first)]
                for s in statistics
            ]

        answers = self._answer_through_journal(
            ("statistics", *_target_key(target)),
            sequences,
            prompts=sequences,
            sizes=list(map(len, sequences)),
            counts=[len(NUMBERS)] * len(sequences),
            ask=ask,
            fits=_is_statistics,
            progress=progress,
        )
        return [
            _empty_statistics(sequence) if answer is None else TokenStatistics(*answer)
            for sequence, answer in zip(sequences, answers, strict=True)
        ]

    def score_groups(
        self, target: Target, groups: Sequence[TokenRows], *, progress: Progress = no_progress
    ) -> list[LogProbabilities]:
        """Score every sequence of every group; a group is one question."""
        answers = self._answer_through_journal(
            ("groups", *_target_key(target)),
            groups,
            prompts=[group[0] if group else () for group in groups],
            sizes=[sum(map(len, group)) for group in groups],
            counts=list(map(len, groups)),
            ask=lambda piece, progress: self.engine.score_groups(target, piece, progress=progress),
            fits=lambda group, answer: _all_fit(_is_score_row, group, answer),
            progress=progress,
        )
        return [
            [_zeros(sequence) for sequence in group] if answer is None else answer
            for group, answer in zip(groups, answers, strict=True)
        ]

    def _answer_through_journal(
        self,
        name: object,
        items: Sequence[Item],
        *,
        prompts: Sequence[Sequence[int]],
        sizes: Sequence[int],
        counts: Sequence[int],
        ask: Callable[[Sequence[Item], Progress], list[Any]],
        fits: Callable[[Item, Any], bool],
        progress: Progress,
    ) -> list[Any]:
        """Return the answer to every item; None for items of another shard.

        `sizes` holds the number of tokens of each item, `counts` the number of its answers; `fits`
        tells whether a value from the journal is a valid answer to an item.
        """
        answers: list[Any] = [None] * len(items)
        done, total = 0, sum(sizes)
        for shard in self.journal.shards:
            journal_pass = shard.open_pass(name)
            for piece in _pieces(shard, prompts, sizes):
                size, count = (sum(values[index] for index in piece) for values in (sizes, counts))
                content = self._answer_piece(
                    journal_pass,
                    [items[index] for index in piece],
                    count=count,
                    room=chunk_size.journal_bytes(count + 2 * len(piece), size),
                    ask=ask,
                    fits=fits,
                    progress=_share(progress, done, size, total),
                )
                for index, answer in zip(piece, content, strict=True):
                    answers[index] = answer
                done += size
                progress(done, total)
        return answers

    def _answer_piece(
        self,
        journal_pass: JournalPass,
        questions: Sequence[Item],
        *,
        count: int,
        room: int,
        ask: Callable[[Sequence[Item], Progress], list[Any]],
        fits: Callable[[Item, Any], bool],
        progress: Progress,
    ) -> list[Any]:
        """Return the answers to a piece from the journal, or else ask the engine and keep them."""
        digest = blake2b(repr(questions).encode(), digest_size=16).digest()
        content: list[Any] | None = journal_pass.next(digest, room)
        if content is None:
            content = ask(questions, progress)
            journal_pass.add(digest, count, content)
        elif not _all_fit(fits, questions, content):
            raise journal_pass.broken("an answer is none to its question")
        return content


def _pieces(
    journal: ShardJournal, prompts: Sequence[Sequence[int]], sizes: Sequence[int]
) -> Iterator[list[int]]:
    """Yield the indices of a shard's questions in pieces of at most ROOM tokens or one question."""
    piece: list[int] = []
    before = size = 0
    for index, prompt in enumerate(prompts):
        if not journal.shard.has(prompt):
            continue
        piece.append(index)
        size += sizes[index]
        if size >= chunk_size.size(before, FIRST, ROOM):
            yield piece
            before += size
            piece, size = [], 0
    if piece:
        yield piece


def _all_fit(fits: Callable[[Any, Any], bool], items: Sequence[Any], answers: Any) -> bool:
    """Tell whether there is exactly one valid answer to each item."""
    return (
        isinstance(answers, list) and len(answers) == len(items) and all(map(fits, items, answers))
    )


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


def _empty_statistics(sequence: Sequence[int]) -> TokenStatistics:
    """Return statistics that are all zero, for a text that belongs to another shard."""
    zeros = _zeros(sequence)
    return TokenStatistics(zeros, zeros, zeros, [False] * len(zeros))


def _is_statistics(sequence: Sequence[int], answer: Any) -> bool:
    """Tell whether an answer has the form in which the journal keeps a text's statistics."""
    if not isinstance(answer, list) or len(answer) != len(NUMBERS):
        return False
    most = max(0, len(sequence) - 1)
    if answer[1] == answer[2] == []:  # a server does not return them
        answer = [answer[0], [0.0] * most, [0.0] * most, answer[3]]
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
