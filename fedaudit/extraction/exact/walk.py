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
"""Questions of the largest piece; of more than STRINGS for each there are more."""
STRINGS = 4
"""A piece takes room in the journal by its strings: so many of them, at most, a question."""
REFUSED = "refused"
"""What the journal says of a piece that could not be walked, with the reason."""
HELD = 2**21
"""Probabilities that are held at once."""
DRAWS = 8
"""For each sample of a prefix, so many draws go into what a walk gives up."""
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
    case: AttackContext,
    target: Target,
    plan: QueryPlan,
    strings: Sequence[str],
    manner: QueryParams,
    threshold: float,
) -> WalkResult:
    """Return what one model gives of `strings`, over all prefixes of a plan.

    Of a shard's audit the other shards' pieces are left out.
    """
    walking = _Walking(
        case=case, target=target, strings=tuple(strings), manner=manner, threshold=threshold
    )
    sums, told = SearchSums(len(strings)), case.progress(f"walking {target.name}")
    for piece in walking.through(plan, told):
        sums.join(piece)
    told(plan.size, plan.size)
    return WalkResult(
        strings=walking.strings,
        log_least=sums.log_least,
        log_most=sums.log_most,
        best=sums.best,
        prefixes=sums.prefixes,
        drawn=sums.drawn,
        weight=sums.weight,
        draws=walking.draws,
        likeliest=sums.likeliest,
        rows=sums.rows / max(1, sums.questions),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walking:
    """One walk of one model over the questions of an attack."""

    case: AttackContext
    target: Target
    strings: tuple[str, ...]
    manner: QueryParams
    threshold: float

    @property
    def draws(self) -> int:
        """Return how many draws of each prefix go into what is given up."""
        return min(self.manner.samples * DRAWS, MOST_DRAWS)

    @property
    def seed(self) -> int:
        """Return what the draws derive from: a base has its own, so that errors are independent."""
        return self.case.seed if self.target.adapter is not None else ~self.case.seed

    def through(self, plan: QueryPlan, told: Progress) -> Iterator[SearchSums]:
        """Yield the sums of each piece in the order of the plan, as far as it is to be walked."""
        kept = self.case.kept if isinstance(self.case, SharedContext) else None
        streams, of = (self._streams(kept), kept.parts[0].shard.of) if kept else ({0: None}, 1)
        most = max(QUESTIONS, len(self.strings) // STRINGS)
        for turn, piece in enumerate(_growing(plan.numbered(), most)):
            if turn % of in streams:
                yield self._piece(piece, streams[turn % of], told, plan.size)

    def _streams(self, kept: AuditJournal) -> dict[int, JournalPass | None]:
        """Return the pass of each shard that is there, by its number less one.

        It is named by all that the sums follow from.
        """
        who = "walk", target_identity(self.target), self.target.heading, self.seed
        manner = self.manner.new_tokens, self.manner.decoding, self.draws, self.threshold
        what = (*who, *manner, "weight", self.strings)
        return {part.shard.number - 1: part.stream(what) for part in kept.parts}

    def _piece(
        self, piece: _Piece, stream: JournalPass | None, told: Progress, total: int
    ) -> SearchSums:
        if stream is None:
            return self._walked(piece, told, total)
        digest = _of_piece(piece)
        content = stream.next(digest, self._room)
        if content is None:
            try:
                found = self._walked(piece, told, total)
            except BatchTooLargeError:  # another machine may have it
                raise
            except InputError as error:  # the report says it, and so must a merged one
                stream.add(digest, _prefixes(piece), {REFUSED: str(error)})
                raise
            stream.add(digest, _prefixes(piece), found.packed())
            return found
        self._recheck(stream, digest, piece, content)
        if isinstance(content, dict) and isinstance(content.get(REFUSED), str):
            raise InputError(content[REFUSED])
        _from(told, piece, total)(1, 1)
        try:
            return SearchSums.unpacked(content, len(self.strings))
        except ValueError as error:
            raise stream.broken(error) from None

    @property
    def _room(self) -> int:
        """Return the bytes that the sums of a piece take at most: of each string some numbers."""
        return chunk_size.journal_bytes(8 * (1 + len(self.strings)))

    def _recheck(self, stream: JournalPass, digest: bytes, piece: _Piece, said: Any) -> None:
        """Walk a piece of a shard again where it is drawn: its sums cannot be taken apart."""
        kept = self.case.kept if isinstance(self.case, SharedContext) else None
        if kept is None or kept.recheck is None:
            return

        def walk(_: Sequence[int]) -> list[Any]:
            try:
                return [self._walked(piece, no_progress, 1).packed()]
            except BatchTooLargeError:
                raise
            except InputError as error:
                return [{REFUSED: str(error)}]

        kept.recheck.check(stream, digest, [said], walk, [0])

    def _walked(self, piece: _Piece, told: Progress, total: int) -> SearchSums:
        """Return the sums of a piece that is walked now, as much at once as may be held."""
        sums = SearchSums(len(self.strings))
        for some in _cut(iter(piece), max(1, HELD // max(1, len(self.strings)))):
            found = self.case.engine.prefix_probabilities(
                self.target,
                PrefixProbabilityRequest(
                    [question.prompt for _, question in some],
                    self.strings,
                    max_new_tokens=self.manner.new_tokens,
                    decoding=self.manner.decoding,
                    threshold=self.threshold,
                    trials=[self.draws * question.copies for _, question in some],
                    seed=self.seed,
                ),
                progress=_from(told, some, total),
            )
            for (start, question), chances in zip(some, found, strict=True):
                sums.add(start, question, chances, self.draws * question.copies)
        return sums


def _growing(questions: Iterator[tuple[int, Query]], most: int) -> Iterator[_Piece]:
    """Yield numbered questions in pieces of at most `most`."""
    before = 0
    while piece := list(islice(questions, chunk_size.size(before, FIRST, most))):
        yield piece
        before += len(piece)


def _cut(questions: Iterator[tuple[int, Query]], most: int) -> Iterator[_Piece]:
    """Yield numbered questions, `most` at once."""
    while piece := list(islice(questions, most)):
        yield piece


def _of_piece(piece: _Piece) -> bytes:
    asked = [(start, question.prompt, question.copies) for start, question in piece]
    return blake2b(repr(asked).encode(), digest_size=16).digest()


def _prefixes(piece: _Piece) -> int:
    return sum(question.copies for _, question in piece)


def _from(told: Progress, piece: _Piece, total: int) -> Progress:
    start = piece[0][0]
    size = _prefixes(piece)

    def progress(done: int, of: int) -> None:
        told(start + size * done // max(of, 1), total)

    return progress
