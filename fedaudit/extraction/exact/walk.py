"""Walking from every prefix of a plan, and adding up what one model gives of each string.

A piece of the plan is walked at once and goes to the journal at once: what is lost when an audit is
killed is the piece that was being walked. Shards take the pieces in turn, and not question by
question: a piece is then read in the same batches whoever walks it, and rounded alike.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any

from fedaudit.api.engine import PrefixProbabilityRequest
from fedaudit.api.errors import BatchTooLargeError, InputError
from fedaudit.api.plugin import AttackContext
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Target
from fedaudit.extraction.exact.accumulators import SearchSums
from fedaudit.extraction.query_plan import Query, QueryPlan
from fedaudit.extraction.sampling import QueryParams, SharedContext
from fedaudit.journal import chunk_size
from fedaudit.journal.journal import JournalPass
from fedaudit.journal.shards import AuditJournal, target_identity

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

FIRST = 64
"""Questions of a first piece, which is kept at once."""
QUESTIONS = 256
"""Questions of the largest piece; more where there are over STRINGS strings for each."""
STRINGS = 4
"""A piece's room in the journal grows with the strings: so many a question, at most."""
REFUSED = "refused"
"""What the journal says of a piece that could not be walked, with the reason."""
MAX_PROBABILITIES = 2**21
"""Probabilities that are held at once."""
DRAWS = 8
"""Draws, for each sample of a prefix, from the branches that a walk does not follow."""
MOST_DRAWS = 1000
"""Of a prefix: more would cost as much as sampling does."""

_Piece = Sequence[tuple[int, Query]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkResult:
    """What the walk of one model found of each string, over all prefixes: (strings,) each."""

    strings: tuple[str, ...]
    log_least: "npt.NDArray[np.float64]"
    """ln of the probability that one sample of every prefix misses it: by what was followed."""
    log_most: "npt.NDArray[np.float64]"
    """The same if all that was given up had spelt it."""
    best: "npt.NDArray[np.float64]"
    """The highest probability that any prefix gives it, by what was followed."""
    prefixes: "npt.NDArray[np.int64]"
    """How many different prefixes give it, one time of a thousand at least."""
    drawn: "npt.NDArray[np.int64]"
    weight: "npt.NDArray[np.float64]"
    """Of all draws that completed it: each counts 1 over what its prefix misses by following."""
    draws: int
    """How many draws of each prefix went into what was given up; `drawn` of all completed it."""
    likeliest: dict[int, list[tuple[float, int]]]
    """By string: probability and number of those prefixes, the likeliest first, a few."""
    rows: float
    """How many rows the model read for a prefix, in the mean."""


def walk_prefixes(
    context: AttackContext,
    target: Target,
    plan: QueryPlan,
    strings: Sequence[str],
    query_params: QueryParams,
    threshold: float,
) -> WalkResult:
    """Return what one model gives of `strings`, over all prefixes of a plan.

    Of a shard's audit the other shards' pieces are left out.
    """
    plan_walk = _PlanWalk(
        context=context,
        target=target,
        strings=tuple(strings),
        query_params=query_params,
        threshold=threshold,
    )
    sums, progress = SearchSums(len(strings)), context.progress(f"walking {target.name}")
    for piece in plan_walk.walk_chunks(plan, progress):
        sums.join(piece)
    progress(plan.size, plan.size)
    return WalkResult(
        strings=plan_walk.strings,
        log_least=sums.log_least,
        log_most=sums.log_most,
        best=sums.best,
        prefixes=sums.prefixes,
        drawn=sums.drawn,
        weight=sums.weight,
        draws=plan_walk.draws,
        likeliest=sums.likeliest,
        rows=sums.rows / max(1, sums.questions),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlanWalk:
    """One walk of one model over the questions of an attack."""

    context: AttackContext
    target: Target
    strings: tuple[str, ...]
    query_params: QueryParams
    threshold: float

    @property
    def draws(self) -> int:
        """Return how many draws of each prefix estimate what is not followed."""
        return min(self.query_params.samples * DRAWS, MOST_DRAWS)

    @property
    def seed(self) -> int:
        """Return what the draws derive from: a base has its own, so that errors are independent."""
        return self.context.seed if self.target.adapter is not None else ~self.context.seed

    def walk_chunks(self, plan: QueryPlan, progress: Progress) -> Iterator[SearchSums]:
        """Yield the sums of each piece in the order of the plan, as far as it is to be walked."""
        journal = self.context.journal if isinstance(self.context, SharedContext) else None
        streams, shard_count = (
            (self._streams(journal), journal.shards[0].shard.of) if journal else ({0: None}, 1)
        )
        most = max(QUESTIONS, len(self.strings) // STRINGS)
        for turn, piece in enumerate(_cut_growing(plan.numbered(), most)):
            if turn % shard_count in streams:
                yield self._read_or_walk_piece(
                    piece, streams[turn % shard_count], progress, plan.size
                )

    def _streams(self, journal: AuditJournal) -> dict[int, JournalPass | None]:
        """Return the journal pass of each shard at hand, by its number less one.

        A pass is named by everything that the sums depend on.
        """
        target_key = "walk", target_identity(self.target), self.target.heading, self.seed
        params = self.query_params
        settings = params.new_tokens, params.decoding, self.draws, self.threshold
        key = (*target_key, *settings, "weight", self.strings)
        return {
            shard_journal.shard.number - 1: shard_journal.stream(key)
            for shard_journal in journal.shards
        }

    def _read_or_walk_piece(
        self, piece: _Piece, stream: JournalPass | None, progress: Progress, total: int
    ) -> SearchSums:
        if stream is None:
            return self._walk_piece(piece, progress, total)
        digest = _digest_piece(piece)
        content = stream.next(digest, self._max_bytes)
        if content is None:
            try:
                sums = self._walk_piece(piece, progress, total)
            except BatchTooLargeError:  # another machine may have it
                raise
            except InputError as error:  # the report says it, and so must a merged one
                stream.add(digest, _count_prefixes(piece), {REFUSED: str(error)})
                raise
            stream.add(digest, _count_prefixes(piece), sums.pack())
            return sums
        self._recheck(stream, digest, piece, content)
        if isinstance(content, dict) and isinstance(content.get(REFUSED), str):
            raise InputError(content[REFUSED])
        _offset_progress(progress, piece, total)(1, 1)
        try:
            return SearchSums.unpack(content, len(self.strings))
        except ValueError as error:
            raise stream.broken(error) from None

    @property
    def _max_bytes(self) -> int:
        """Return the bytes that the sums of a piece take at most: of each string some numbers."""
        return chunk_size.journal_bytes(8 * (1 + len(self.strings)))

    def _recheck(self, stream: JournalPass, digest: bytes, piece: _Piece, content: Any) -> None:
        """Walk a shard's piece again if the recheck draws it: its sums cannot be taken apart."""
        journal = self.context.journal if isinstance(self.context, SharedContext) else None
        if journal is None or journal.recheck is None:
            return

        def walk(_: Sequence[int]) -> list[Any]:
            try:
                return [self._walk_piece(piece, no_progress, 1).pack()]
            except BatchTooLargeError:
                raise
            except InputError as error:
                return [{REFUSED: str(error)}]

        journal.recheck.check(stream, digest, [content], walk, [0])

    def _walk_piece(self, piece: _Piece, progress: Progress, total: int) -> SearchSums:
        """Return the sums of a piece that is walked now, as much at once as may be held."""
        sums = SearchSums(len(self.strings))
        for batch in _cut(iter(piece), max(1, MAX_PROBABILITIES // max(1, len(self.strings)))):
            results = self.context.engine.prefix_probabilities(
                self.target,
                PrefixProbabilityRequest(
                    [question.prompt for _, question in batch],
                    self.strings,
                    max_new_tokens=self.query_params.new_tokens,
                    decoding=self.query_params.decoding,
                    threshold=self.threshold,
                    trials=[self.draws * question.copies for _, question in batch],
                    seed=self.seed,
                ),
                progress=_offset_progress(progress, batch, total),
            )
            for (start, question), chances in zip(batch, results, strict=True):
                sums.add(start, question, chances, self.draws * question.copies)
        return sums


def _cut_growing(questions: Iterator[tuple[int, Query]], most: int) -> Iterator[_Piece]:
    """Yield numbered questions in pieces of at most `most`."""
    before = 0
    while piece := list(islice(questions, chunk_size.size(before, FIRST, most))):
        yield piece
        before += len(piece)


def _cut(questions: Iterator[tuple[int, Query]], most: int) -> Iterator[_Piece]:
    """Yield numbered questions, `most` at once."""
    while piece := list(islice(questions, most)):
        yield piece


def _digest_piece(piece: _Piece) -> bytes:
    questions = [(start, question.prompt, question.copies) for start, question in piece]
    return blake2b(repr(questions).encode(), digest_size=16).digest()


def _count_prefixes(piece: _Piece) -> int:
    return sum(question.copies for _, question in piece)


def _offset_progress(plan_progress: Progress, piece: _Piece, total: int) -> Progress:
    start = piece[0][0]
    size = _count_prefixes(piece)

    def progress(done: int, piece_total: int) -> None:
        plan_progress(start + size * done // max(piece_total, 1), total)

    return progress
