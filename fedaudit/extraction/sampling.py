"""Asking a model the queries of a plan in chunks, and keeping the answers of one audit.

A chunk of queries is asked together and then written to the cache of answers, so that an audit that
is killed loses only the chunk in progress. Chunks are the same in every run, so that a resumed run
puts the same queries into the same batches.
"""

import json
from array import array
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from hashlib import blake2b
from typing import Any

from fedaudit.api.engine import GenerationBatch
from fedaudit.api.plugin import AttackContext
from fedaudit.api.progress import Progress
from fedaudit.api.records import GenerationRequest, SamplingParams, Target
from fedaudit.cache.answers import AnswerCache, Shard, batch_size, target_identity
from fedaudit.extraction.leads import with_leads
from fedaudit.extraction.matcher import TargetMatcher, whole_answers
from fedaudit.extraction.query_plan import Query, QueryPlan, query_chunks

FIRST_CHUNK_ANSWERS = 128
"""The number of answers in the first chunk, small so that it is soon kept."""
MAX_CHUNK_ANSWERS = 16_384
"""The most answers in a chunk, which are all in memory at once."""
CACHE_BYTES = 2**29
"""Bytes of answers that are remembered for other attacks of the same audit."""
OVERHEAD = 250
"""About how many bytes an entry takes besides its text."""

Answer = tuple[int, Query, Sequence[str]]
"""The number of prefixes before a query, the query, and its answers as texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryParams:
    """How every query of an attack is asked."""

    samples: int
    new_tokens: int
    decoding: SamplingParams


class ResponseCache:
    """Answers that several attacks of one audit share, up to a number of bytes.

    Sample i of a prompt depends only on the seed, the prompt and i, so an attack that needs fewer
    samples gets the first ones. A full cache keeps its earliest answers, as attacks ask what
    matters most first.
    """

    def __init__(self, free_bytes: int = 0) -> None:
        self.free_bytes = free_bytes
        self.reused_answers: Counter[Target] = Counter()
        """Number of answers taken from the cache, by target."""
        self._entries: dict[tuple[Hashable, bytes], bytes] = {}

    def get(self, where: Hashable, prompt: Sequence[int], samples: int) -> list[str] | None:
        """Return the first `samples` answers to a prompt; None if fewer are in the cache."""
        entry = self._entries.get((where, _digest(prompt))) if self._entries else None
        texts: list[str] = json.loads(entry.decode("utf-8", "surrogatepass")) if entry else []
        return texts[:samples] if len(texts) >= samples else None

    def put(self, where: Hashable, prompt: Sequence[int], texts: Sequence[str]) -> None:
        """Cache the answers to a prompt, in place of earlier, fewer ones, if there is room."""
        if self.free_bytes <= 0:
            return
        value = json.dumps(texts, ensure_ascii=False).encode("utf-8", "surrogatepass")
        key = (where, _digest(prompt))
        old = self._entries.get(key)
        free_bytes = self.free_bytes + (len(old) + OVERHEAD if old else 0) - len(value) - OVERHEAD
        if free_bytes >= 0:
            self._entries[key], self.free_bytes = value, free_bytes


@dataclass(frozen=True, kw_only=True)
class SharedContext(AttackContext):
    """A context whose attacks share their answers, and keep them on disk if there is a place."""

    cache: ResponseCache = field(default_factory=ResponseCache)
    kept: AnswerCache | None = None
    """The answers on disk."""


def share_responses(
    context: AttackContext, cache: ResponseCache, kept: AnswerCache | None = None
) -> SharedContext:
    """Return `context` with a response cache that other contexts of the same engine may share."""
    same = {f.name: getattr(context, f.name) for f in fields(AttackContext)}
    return SharedContext(**same, cache=cache, kept=kept)


def ask_plan(
    context: AttackContext,
    target: Target,
    plan: QueryPlan,
    query_params: QueryParams,
    matcher: TargetMatcher | None = None,
) -> Iterator[Answer]:
    """Yield the answers to every query of a plan, in order; few are in memory at once.

    With a `matcher`, an answer is reduced to the longest string that it begins with, or to "", so
    that the disk holds no text. In the audit of a shard, other shards' queries are left out.
    """
    shared = (
        context if isinstance(context, SharedContext) else share_responses(context, ResponseCache())
    )
    plan_pass = _PlanPass(context=shared, target=target, query_params=query_params, matcher=matcher)
    progress, total = context.progress(f"asking {target.name}"), plan.size * query_params.samples
    yield from plan_pass.answers(plan, progress, total)
    progress(total, total)


_Numbered = tuple[int, Query]


@dataclass(frozen=True, kw_only=True)
class _PlanPass:
    """One pass over the queries of an attack."""

    context: SharedContext
    target: Target
    query_params: QueryParams
    matcher: TargetMatcher | None

    def cache_key(self, query: Query) -> Hashable:
        """Return everything but the prompt on which an answer depends within this process."""
        target, query_params = self.target, self.query_params
        looked_for = (self.matcher.digest, query.leads) if self.matcher else None
        settings = (
            target.adapter,
            target.heading,
            self.context.seed,
            query_params.decoding,
            query_params.new_tokens,
        )
        return (*settings, looked_for)

    @cached_property
    def identity(self) -> object:
        """Return everything but the query on which an answer depends."""
        query_params, target = self.query_params, self.target
        return (
            target_identity(target),
            target.heading,
            query_params.new_tokens,
            query_params.decoding,
            self.context.seed,
            self.matcher.digest if self.matcher else None,
        )

    def answers(self, plan: QueryPlan, progress: Progress, total: int) -> Iterator[Answer]:
        """Yield the answers in the order of the plan, of this process's shard only."""
        samples = self.query_params.samples
        shard = self.context.kept.shard if self.context.kept else Shard()

        def max_prefixes(before: int) -> int:
            bounds = FIRST_CHUNK_ANSWERS, MAX_CHUNK_ANSWERS
            return max(1, batch_size(before * samples, *bounds) // samples)

        for chunk in query_chunks(plan, max_prefixes, lambda query: shard.has(query.prompt)):
            chunk_progress = _offset_progress(progress, chunk[0][0] * samples, total)
            answers = self._answer_chunk(chunk, chunk_progress)
            for (start, query), texts in zip(chunk, answers, strict=True):
                yield start, query, texts

    def _answer_chunk(
        self, chunk: Sequence[_Numbered], progress: Progress
    ) -> Sequence[Sequence[str]]:
        """Return the answers to some queries, which are in the cache from then on."""
        cache, kept = self.context.cache, self.context.kept
        queries = [query for _, query in chunk]
        sample_counts = [self.query_params.samples * query.copies for query in queries]
        answers: list[Sequence[str] | None] = [
            cache.get(self.cache_key(query), query.prompt, samples)
            for query, samples in zip(queries, sample_counts, strict=True)
        ]
        recalled = [texts is not None for texts in answers]
        reused = (n for n, known in zip(sample_counts, recalled, strict=True) if known)
        cache.reused_answers[self.target] += sum(reused)
        digests = [
            _digest_query(query, samples)
            for query, samples in zip(queries, sample_counts, strict=True)
        ]
        values = kept.get(self.identity, digests) if kept else [None] * len(queries)
        for index, value in enumerate(values):
            if kept and value is not None and answers[index] is None:
                answers[index] = self._unpack(kept, value, sample_counts[index])
        missing = [index for index, texts in enumerate(answers) if texts is None]
        fresh = self._ask([queries[index] for index in missing], progress)
        for index, texts in zip(missing, fresh, strict=True):
            answers[index] = texts
        every = [texts for texts in answers if texts is not None]
        if kept and (unkept := [index for index, value in enumerate(values) if value is None]):
            kept.add(
                self.identity,
                [digests[index] for index in unkept],
                [self.matcher.pack(every[i]) if self.matcher else every[i] for i in unkept],
                sum(sample_counts[index] for index in unkept),
            )
        if not missing:
            progress(sum(sample_counts), sum(sample_counts))
        for query, texts, known in zip(queries, every, recalled, strict=True):
            if not known:
                cache.put(self.cache_key(query), query.prompt, texts)
        return every

    def _ask(self, queries: Sequence[Query], progress: Progress) -> list[Sequence[str]]:
        """Return the engine's answers, reduced to the strings looked for if there is a matcher."""
        if not queries:
            return []
        params, matcher, strings = self.query_params, self.matcher, None
        if matcher:
            strings = with_leads(matcher.strings, (query.leads for query in queries))
        requests = [
            GenerationRequest(
                prompt=query.prompt,
                samples=params.samples * query.copies,
                max_new_tokens=params.new_tokens,
            )
            for query in queries
        ]
        batch = GenerationBatch(
            requests, seed=self.context.seed, decoding=params.decoding, stop_strings=strings
        )
        generated = self.context.engine.generate(self.target, batch, progress=progress)
        if matcher is None:
            return [completion.texts for completion in generated]
        return [
            [matcher.reduce(text, query.leads) for text in completion.texts]
            for query, completion in zip(queries, generated, strict=True)
        ]

    def _unpack(self, kept: AnswerCache, value: Any, samples: int) -> Sequence[str]:
        """Return the answers to a query from disk; raises BrokenCache if they are malformed."""
        try:
            return (
                self.matcher.unpack(value, samples)
                if self.matcher
                else whole_answers(value, samples)
            )
        except ValueError as error:
            raise kept.broken(error) from None


def _digest_query(query: Query, samples: int) -> bytes:
    tokens = array("q", (samples, *query.prompt)).tobytes()
    digest = blake2b(tokens, digest_size=16)
    digest.update(repr(query.leads).encode() if query.leads else b"")
    return digest.digest()


def _offset_progress(plan_progress: Progress, before: int, total: int) -> Progress:
    def progress(done: int, _: int) -> None:
        plan_progress(min(before + done, total), total)

    return progress


def _digest(prompt: Sequence[int]) -> bytes:
    return blake2b(array("q", prompt).tobytes(), digest_size=16).digest()
