"""The walk of one model over all prefixes of a query plan, with sums for each string.

A chunk of the plan is walked and kept on disk as a whole, so an audit that is killed only loses the
current chunk. Shards take chunks in turn, not single queries: so a chunk has the same batches and
the same rounding, whichever shard walks it.

Each chunk is summed by itself, and chunks are added in the order of the plan, whichever shard
walked them. So the sums of a resumed audit, and of merged shards, are the same to the last digit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from itertools import islice
from math import isnan
from typing import Any

import numpy as np
import numpy.typing as npt

from fedaudit.api.engine import PrefixProbabilities, PrefixProbabilityRequest
from fedaudit.api.errors import BatchTooLargeError, InputError
from fedaudit.api.plugin import AttackContext
from fedaudit.api.progress import Progress
from fedaudit.api.records import Target
from fedaudit.cache.answers import AnswerCache, batch_size, target_identity
from fedaudit.extraction.leads import Leads, StringsWithLeads
from fedaudit.extraction.query_plan import Query, QueryPlan
from fedaudit.extraction.sampling import QueryParams, SharedContext

Floats = npt.NDArray[np.float64]

KEPT_PREFIXES = 5
"""The number of prefixes kept per target: those after which the target is likeliest."""
GIVES = 1e-3
"""The least probability of a target after a prefix at which the prefix counts as giving it."""
HEAVIEST = 4.0
"""Cap on a draw's inverse-probability weight 1 / (1 - followed probability)."""

_ADDED = ("log_least", "log_most", "prefixes", "drawn", "weight")
_COUNTS = ("prefixes", "drawn")


@dataclass(slots=True)
class WalkedPrefixes:
    """Sums over prefixes of what a walk of one model finds of some strings.

    All arrays are (strings,).
    """

    strings: tuple[str, ...]
    draws: int
    """The number of draws per prefix that sampled the mass given up."""
    log_least: Floats = field(init=False)
    """ln of the probability that one sample of every prefix misses the string, from the mass that
    was followed."""
    log_most: Floats = field(init=False)
    """The same, as if all mass given up that might have spelt the string had spelt it."""
    best: Floats = field(init=False)
    """The highest probability after any prefix, from the mass that was followed."""
    prefixes: npt.NDArray[np.int64] = field(init=False)
    """The number of different prefixes after which the probability is at least GIVES."""
    drawn: npt.NDArray[np.int64] = field(init=False)
    """The number of draws that completed the string."""
    weight: Floats = field(init=False)
    """The total weight of these draws: 1 / (1 - p) each, at most HEAVIEST, where p is the string's
    followed probability after the draw's prefix."""
    likeliest: dict[int, list[tuple[float, int]]] = field(default_factory=dict)
    """For each string (probability, number) of a few prefixes, the likeliest first."""
    rows: int = 0
    """The number of rows that the model read."""
    queries: int = 0

    def __post_init__(self) -> None:
        for name in (*_ADDED, "best"):
            kind = np.int64 if name in _COUNTS else np.float64
            setattr(self, name, np.zeros(len(self.strings), dtype=kind))

    @property
    def rows_per_query(self) -> float:
        """Return the mean number of rows per query that the model read."""
        return self.rows / max(1, self.queries)

    def add(self, start: int, query: Query, probabilities: PrefixProbabilities) -> None:
        """Add the result for a query, which stands for `query.copies` prefixes of the plan.

        `start` prefixes of the plan precede it.
        """
        trials = self.draws * query.copies
        with np.errstate(divide="ignore"):  # ln 0 for strings that are certain, so never missed
            self.log_least += query.copies * np.log1p(-probabilities.least)
            self.log_most += query.copies * np.log1p(-probabilities.most)
            self.weight += np.where(
                probabilities.drawn,
                probabilities.drawn * np.minimum(HEAVIEST, 1 / (1 - probabilities.least)),
                0.0,
            )
        np.maximum(self.best, probabilities.least, out=self.best)
        self.drawn += probabilities.drawn
        self.rows += probabilities.rows
        self.queries += 1
        chances = (probabilities.least + probabilities.drawn / max(1, trials)).clip(0, 1)
        for index in np.flatnonzero(chances >= GIVES).tolist():
            self.prefixes[index] += 1
            self._keep_likeliest(index, [(float(chances[index]), start + 1)])

    def join(self, chunk: "WalkedPrefixes") -> None:
        """Add the sums of the next chunk."""
        for name in _ADDED:
            total = getattr(self, name)
            total += getattr(chunk, name)
        np.maximum(self.best, chunk.best, out=self.best)
        self.rows += chunk.rows
        self.queries += chunk.queries
        for index, likeliest in chunk.likeliest.items():
            self._keep_likeliest(index, likeliest)

    def pack(self) -> dict[str, Any]:
        """Return the sums as JSON values; floats keep all digits."""
        return {
            **{name: getattr(self, name).tolist() for name in (*_ADDED, "best")},
            "likeliest": [(i, *pair) for i, pairs in self.likeliest.items() for pair in pairs],
            "rows": self.rows,
            "questions": self.queries,
        }

    @classmethod
    def unpack(cls, content: Any, strings: tuple[str, ...], draws: int) -> "WalkedPrefixes":
        """Return sums from their packed form; raises ValueError if it is malformed."""
        sums = cls(strings, draws)
        _check(content, sums)
        for name in (*_ADDED, "best"):
            getattr(sums, name)[:] = content[name]
        for index, chance, number in content["likeliest"]:
            sums.likeliest.setdefault(index, []).append((chance, number))
        sums.rows, sums.queries = content["rows"], content["questions"]
        return sums

    def _keep_likeliest(self, index: int, pairs: Sequence[tuple[float, int]]) -> None:
        """Keep the likeliest prefixes of a string; among equals, the first."""
        candidates = [*self.likeliest.get(index, ()), *pairs]
        self.likeliest[index] = sorted(candidates, key=lambda pair: (-pair[0], pair[1]))[
            :KEPT_PREFIXES
        ]


def _check(content: Any, empty: WalkedPrefixes) -> None:
    """Raise ValueError unless `content` has the form of `pack` for the strings of `empty`."""
    strings = len(empty.strings)
    if not isinstance(content, dict) or content.keys() != empty.pack().keys():
        raise ValueError("sums have other parts")
    for name in (*_ADDED, "best"):
        kind = int if name in _COUNTS else float
        numbers = content[name]
        if not isinstance(numbers, list) or len(numbers) != strings:
            raise ValueError("sums are of other strings")
        if {type(x) for x in numbers} - {kind} or any(map(isnan, numbers)):
            raise ValueError("sums are not numbers")
        if name in _COUNTS and any(not 0 <= n < 2**62 for n in numbers):
            raise ValueError("sums count what cannot be counted")
    if not isinstance(content["likeliest"], list) or not all(
        _is_likely(entry, strings) for entry in content["likeliest"]
    ):
        raise ValueError("the likeliest prefixes are none")
    if not all(type(content[name]) is int and content[name] >= 0 for name in ("rows", "questions")):
        raise ValueError("sums are of no number of questions")


def _is_likely(entry: Any, strings: int) -> bool:
    """Tell whether `entry` is (string index, probability, number of the prefix)."""
    if not isinstance(entry, list) or [type(field) for field in entry] != [int, float, int]:
        return False
    index, chance, number = entry
    return bool(0 <= index < strings and 0 <= chance <= 1 and number > 0)


FIRST = 64
"""The number of queries in the first chunk."""
QUERIES = 256
"""The number of queries in the largest chunk; more if there are over STRINGS strings for each."""
STRINGS = 4
"""The maximum number of strings per query in the largest chunk, since a chunk takes more space on
the disk with more strings."""
REFUSED = "refused"
"""The key, on disk, of the reason why a chunk could not be walked."""
MAX_PROBABILITIES = 2**21
"""The maximum number of probabilities in memory at once."""
DRAWS = 8
"""The number of draws from branches given up, per sample of a prefix."""
MOST_DRAWS = 1000
"""The maximum number of draws per prefix; more would cost as much as sampling."""

_Chunk = Sequence[tuple[int, Query]]


def walk_prefixes(
    context: AttackContext,
    target: Target,
    plan: QueryPlan,
    strings: Sequence[str],
    query_params: QueryParams,
    threshold: float,
) -> WalkedPrefixes:
    """Return the result of one model's walk for `strings`, over all prefixes of a plan.

    For an audit of some shards, the chunks of other shards are left out.
    """
    plan_walk = _PlanWalk(
        context=context,
        target=target,
        strings=tuple(strings),
        query_params=query_params,
        threshold=threshold,
    )
    sums, progress = plan_walk.no_sums(), context.progress(f"walking {target.name}")
    for chunk in plan_walk.walk_chunks(plan, progress):
        sums.join(chunk)
    progress(plan.size, plan.size)
    return sums


@dataclass(frozen=True, kw_only=True)
class _PlanWalk:
    """One walk of one model over the queries of an attack."""

    context: AttackContext
    target: Target
    strings: tuple[str, ...]
    query_params: QueryParams
    threshold: float

    @property
    def draws(self) -> int:
        """Return the number of draws per prefix that sample the mass given up."""
        return min(self.query_params.samples * DRAWS, MOST_DRAWS)

    @property
    def seed(self) -> int:
        """Return the seed of the draws; a base has another one, so that errors are independent."""
        return self.context.seed if self.target.adapter is not None else ~self.context.seed

    def no_sums(self) -> WalkedPrefixes:
        """Return the sums over no prefixes."""
        return WalkedPrefixes(self.strings, self.draws)

    @cached_property
    def identity(self) -> object:
        """Return everything besides the chunk on which its sums depend."""
        target, params = self.target, self.query_params
        target_key = "walk", target_identity(target), target.heading, self.seed
        settings = params.new_tokens, params.decoding, self.draws, self.threshold
        return *target_key, *settings, self.strings

    def walk_chunks(self, plan: QueryPlan, progress: Progress) -> Iterator[WalkedPrefixes]:
        """Yield the sums of each chunk of the shard at hand, in the order of the plan."""
        kept = self.context.kept if isinstance(self.context, SharedContext) else None
        most = max(QUERIES, len(self.strings) // STRINGS)
        for turn, chunk in enumerate(_growing_chunks(plan.numbered(), most)):
            if kept is None:
                yield self._walk_chunk(chunk, progress, plan.size)
            elif turn % kept.shard.of == kept.shard.number - 1:
                yield self._read_or_walk_chunk(chunk, kept, progress, plan.size)

    def _read_or_walk_chunk(
        self, chunk: _Chunk, kept: AnswerCache, progress: Progress, total: int
    ) -> WalkedPrefixes:
        digest, count = _digest_chunk(chunk), _count_prefixes(chunk)
        [content] = kept.get(self.identity, [digest])
        if content is None:
            try:
                sums = self._walk_chunk(chunk, progress, total)
            except BatchTooLargeError:  # another machine may have enough memory
                raise
            except InputError as error:  # kept, since the report of merged shards says it too
                kept.add(self.identity, [digest], [{REFUSED: str(error)}], count)
                raise
            kept.add(self.identity, [digest], [sums.pack()], count)
            return sums
        if isinstance(content, dict) and isinstance(content.get(REFUSED), str):
            raise InputError(content[REFUSED])
        _offset_progress(progress, chunk, total)(1, 1)
        try:
            return WalkedPrefixes.unpack(content, self.strings, self.draws)
        except ValueError as error:
            raise kept.broken(error) from None

    def _walk_chunk(self, chunk: _Chunk, progress: Progress, total: int) -> WalkedPrefixes:
        """Walk a chunk and return its sums, in batches that respect MAX_PROBABILITIES."""
        sums = self.no_sums()
        forms = len(self.strings) * max(1 + len(query.leads) for _, query in chunk)
        size = max(1, MAX_PROBABILITIES // max(1, forms))
        for batch in (chunk[first : first + size] for first in range(0, len(chunk), size)):
            probabilities: dict[int, PrefixProbabilities] = {}
            for leads in dict.fromkeys(query.leads for _, query in batch):
                alike = [(start, query) for start, query in batch if query.leads == leads]
                results = self._probabilities(
                    alike, leads, _offset_progress(progress, alike, total)
                )
                starts = (start for start, _ in alike)
                probabilities |= dict(zip(starts, results, strict=True))
            for start, query in batch:
                sums.add(start, query, probabilities[start])
        return sums

    def _probabilities(
        self, batch: _Chunk, leads: Leads, progress: Progress
    ) -> list[PrefixProbabilities]:
        """Return the probabilities of each string after queries that have the same leads."""
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
    """Yield numbered queries in chunks that grow from FIRST to at most `most`."""
    before = 0
    while chunk := list(islice(queries, batch_size(before, FIRST, most))):
        yield chunk
        before += len(chunk)


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
