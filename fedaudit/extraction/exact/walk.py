"""Walking from every prefix of a plan, and adding up what one model gives of each string.

A chunk of the plan is walked at once and goes to the journal at once: what is lost when an audit is
killed is the chunk that was being walked. Shards take the chunks in turn, and not query by
query: a chunk is then read in the same batches whoever walks it, and rounded alike.
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
from fedaudit.extraction.exact.accumulators import WalkSums
from fedaudit.extraction.leads import Leads, StringsWithLeads
from fedaudit.extraction.query_plan import Query, QueryPlan
from fedaudit.extraction.sampling import QueryParams, SharedContext
from fedaudit.journal import chunk_size
from fedaudit.journal.journal import JournalPass
from fedaudit.journal.shards import AuditJournal, target_identity

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from fedaudit.api.engine import PrefixProbabilities

FIRST = 64
"""Queries of a first chunk, which is kept at once."""
QUERIES = 256
"""Queries of the largest chunk; more where there are over STRINGS strings for each."""
STRINGS = 4
"""Strings for each query of a chunk, at most: a chunk's room in the journal grows with them."""
REFUSED = "refused"
"""What the journal says of a chunk that could not be walked, with the reason."""
MAX_PROBABILITIES = 2**21
"""Probabilities that are held at once."""
DRAWS = 8
"""Draws, for each sample of a prefix, from the branches that a walk does not follow."""
MOST_DRAWS = 1000
"""Of a prefix: more would cost as much as sampling does."""

_Chunk = Sequence[tuple[int, Query]]


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
    """The total weight of the draws that completed it: 1 / m each, where m is the probability that
    was left to draw from behind its prefix."""
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

    Of a shard's audit the other shards' chunks are left out.
    """
    plan_walk = _PlanWalk(
        context=context,
        target=target,
        strings=tuple(strings),
        query_params=query_params,
        threshold=threshold,
    )
    sums, progress = WalkSums(len(strings)), context.progress(f"walking {target.name}")
    for chunk in plan_walk.walk_chunks(plan, progress):
        sums.join(chunk)
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
        rows=sums.rows / max(1, sums.queries),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlanWalk:
    """One walk of one model over the queries of an attack."""

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

    def walk_chunks(self, plan: QueryPlan, progress: Progress) -> Iterator[WalkSums]:
        """Yield the sums of each chunk in the order of the plan, as far as it is to be walked."""
        journal = self.context.journal if isinstance(self.context, SharedContext) else None
        journal_passes, shard_count = (
            (self._streams(journal), journal.shards[0].shard.of) if journal else ({0: None}, 1)
        )
        most = max(QUERIES, len(self.strings) // STRINGS)
        for turn, chunk in enumerate(_growing_chunks(plan.numbered(), most)):
            if turn % shard_count in journal_passes:
                yield self._read_or_walk_chunk(
                    chunk, journal_passes[turn % shard_count], progress, plan.size
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
            shard_journal.shard.number - 1: shard_journal.open_pass(key)
            for shard_journal in journal.shards
        }

    def _read_or_walk_chunk(
        self, chunk: _Chunk, journal_pass: JournalPass | None, progress: Progress, total: int
    ) -> WalkSums:
        if journal_pass is None:
            return self._walk_chunk(chunk, progress, total)
        digest = _digest_chunk(chunk)
        content = journal_pass.next(digest, self._max_bytes)
        if content is None:
            try:
                sums = self._walk_chunk(chunk, progress, total)
            except BatchTooLargeError:  # another machine may have it
                raise
            except InputError as error:  # the report says it, and so must a merged one
                journal_pass.add(digest, _count_prefixes(chunk), {REFUSED: str(error)})
                raise
            journal_pass.add(digest, _count_prefixes(chunk), sums.pack())
            return sums
        self._recheck(journal_pass, digest, chunk, content)
        if isinstance(content, dict) and isinstance(content.get(REFUSED), str):
            raise InputError(content[REFUSED])
        _offset_progress(progress, chunk, total)(1, 1)
        try:
            return WalkSums.unpack(content, len(self.strings))
        except ValueError as error:
            raise journal_pass.broken(error) from None

    @property
    def _max_bytes(self) -> int:
        """Return the bytes that the sums of a chunk take at most: of each string some numbers."""
        return chunk_size.journal_bytes(8 * (1 + len(self.strings)))

    def _recheck(
        self, journal_pass: JournalPass, digest: bytes, chunk: _Chunk, content: Any
    ) -> None:
        """Walk a shard's chunk again if the recheck draws it: its sums cannot be taken apart."""
        journal = self.context.journal if isinstance(self.context, SharedContext) else None
        if journal is None or journal.recheck is None:
            return

        def walk(_: Sequence[int]) -> list[Any]:
            try:
                return [self._walk_chunk(chunk, no_progress, 1).pack()]
            except BatchTooLargeError:
                raise
            except InputError as error:
                return [{REFUSED: str(error)}]

        journal.recheck.check(journal_pass, digest, [content], walk, [0])

    def _walk_chunk(self, chunk: _Chunk, progress: Progress, total: int) -> WalkSums:
        """Return the sums of a chunk that is walked now, as much at once as may be held."""
        sums = WalkSums(len(self.strings))
        forms = len(self.strings) * max(1 + len(query.leads) for _, query in chunk)
        for batch in _equal_chunks(iter(chunk), max(1, MAX_PROBABILITIES // max(1, forms))):
            probabilities: dict[int, PrefixProbabilities] = {}
            for leads in dict.fromkeys(query.leads for _, query in batch):
                alike = [(start, query) for start, query in batch if query.leads == leads]
                results = self._probabilities(
                    alike, leads, _offset_progress(progress, alike, total)
                )
                starts = (start for start, _ in alike)
                probabilities |= dict(zip(starts, results, strict=True))
            for start, query in batch:
                sums.add(start, query, probabilities[start], self.draws * query.copies)
        return sums

    def _probabilities(
        self, batch: _Chunk, leads: Leads, progress: Progress
    ) -> "list[PrefixProbabilities]":
        """Return what the answers to queries with the same leads give of each string."""
        spelt = StringsWithLeads(self.strings, leads)
        results = self.context.engine.prefix_probabilities(
            self.target,
            PrefixProbabilityRequest(
                [query.prompt for _, query in batch],
                spelt.forms,
                max_new_tokens=self.query_params.new_tokens,
                decoding=self.query_params.decoding,
                threshold=self.threshold,
                trials=[self.draws * query.copies for _, query in batch],
                seed=self.seed,
            ),
            progress=progress,
        )
        return [spelt.add_up(result) for result in results] if leads else list(results)


def _growing_chunks(queries: Iterator[tuple[int, Query]], most: int) -> Iterator[_Chunk]:
    """Yield numbered queries in chunks of at most `most`."""
    before = 0
    while chunk := list(islice(queries, chunk_size.size(before, FIRST, most))):
        yield chunk
        before += len(chunk)


def _equal_chunks(queries: Iterator[tuple[int, Query]], most: int) -> Iterator[_Chunk]:
    """Yield numbered queries, `most` at once."""
    while chunk := list(islice(queries, most)):
        yield chunk


def _digest_chunk(chunk: _Chunk) -> bytes:
    queries = [(start, query.prompt, query.copies, *query.leads) for start, query in chunk]
    return blake2b(repr(queries).encode(), digest_size=16).digest()


def _count_prefixes(chunk: _Chunk) -> int:
    return sum(query.copies for _, query in chunk)


def _offset_progress(plan_progress: Progress, chunk: _Chunk, total: int) -> Progress:
    start = chunk[0][0]
    size = _count_prefixes(chunk)

    def progress(done: int, chunk_total: int) -> None:
        plan_progress(start + size * done // max(chunk_total, 1), total)

    return progress
