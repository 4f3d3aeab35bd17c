"""Continuing the clients' prefixes, and matching the continuations with the clients' suffixes."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fedaudit.api.engine import Engine, GenerationBatch
from fedaudit.api.errors import InputError
from fedaudit.api.plugin import Paraphraser, PiiDetector
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import GenerationRequest, Target
from fedaudit.audit.memorization.splits import ClientSample, PrefixSuffix, SearchedText
from fedaudit.audit.request import Protocol
from fedaudit.metrics.bm25 import Index
from fedaudit.metrics.memorization import PrefixHits, has_repeats
from fedaudit.metrics.overlap import (
    CachedScores,
    Category,
    Overlap,
    OverlapSettings,
    PreparedText,
    compare_prepared,
    hit_categories,
    paraphrases,
    prepare_texts,
    sentence_pairs,
)
from fedaudit.system.processes import processes

MIN_PARALLEL_PAIRS = 4000
"""The number of pairs that one process compares in the time that others need to start."""

CHUNK = 2000
"""The approximate number of pairs in a chunk."""

REMEMBERED = 1 << 13
"""The maximum number of prepared texts in a process's cache."""

_READY: dict[OverlapSettings, dict[str, PreparedText]] = {}

BROKEN = "A process that compares texts died; there may be too little memory."

Pair = tuple[str, str]
"""A suffix and a continuation."""

Row = tuple[str, tuple[str, ...]]
"""A suffix, and the continuations that it is compared with."""


def compare_all(
    pairs: Collection[Pair],
    settings: OverlapSettings,
    *,
    workers: int = 0,
    progress: Progress = no_progress,
) -> dict[Pair, Overlap]:
    """Return the overlap of each pair, without pairs whose verdict is "none".

    The result depends neither on the number of processes nor on the order of the pairs. 0 workers
    means one per core.
    """
    chunks = list(_chunks(pairs))
    count = min(workers or len(os.sched_getaffinity(0)), len(chunks))
    pair_overlaps: dict[Pair, Overlap] = {}
    done = 0
    for chunk, overlaps in _compare_chunks(
        chunks, settings, count if len(pairs) > MIN_PARALLEL_PAIRS else 1
    ):
        for (suffix, texts), row in zip(chunk, overlaps, strict=True):
            pair_overlaps |= {(suffix, texts[index]): overlap for index, overlap in row}
            done += len(texts)
        progress(done, len(pairs))
    return pair_overlaps


def _chunks(pairs: Collection[Pair]) -> Iterator[list[Row]]:
    """Yield all pairs in chunks, grouped by suffix."""
    by_suffix: dict[str, list[str]] = {}
    for suffix, text in sorted(pairs):
        by_suffix.setdefault(suffix, []).append(text)
    chunk: list[Row] = []
    size = 0
    for suffix, texts in by_suffix.items():
        chunk.append((suffix, tuple(texts)))
        size += len(texts)
        if size >= CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


ChunkOverlaps = list[list[tuple[int, Overlap]]]
"""For each suffix of a chunk, the indices of the continuations that overlap with it, and how."""


def _compare_chunks(
    chunks: Sequence[list[Row]], settings: OverlapSettings, count: int
) -> Iterator[tuple[list[Row], ChunkOverlaps]]:
    if count < 2:
        yield from ((chunk, _compare(settings, chunk)) for chunk in chunks)
        return
    with processes(count, BROKEN) as pool:
        waiting = [pool.submit(_compare, settings, chunk) for chunk in chunks]
        for chunk, answer in zip(chunks, waiting, strict=True):
            yield chunk, answer.result()


def _compare(settings: OverlapSettings, chunk: Sequence[Row]) -> ChunkOverlaps:
    """Compare the pairs of a chunk; this runs in a worker process."""
    ready = _prepare_texts({text for suffix, texts in chunk for text in (suffix, *texts)}, settings)
    rows: ChunkOverlaps = []
    for suffix, texts in chunk:
        prepared = ready[suffix]
        overlaps = ((i, compare_prepared(prepared, ready[text])) for i, text in enumerate(texts))
        rows.append([(i, overlap) for i, overlap in overlaps if overlap.verdict != "none"])
    return rows


def _prepare_texts(texts: Collection[str], settings: OverlapSettings) -> dict[str, PreparedText]:
    """Return prepared texts, cached since continuations occur again in the next chunk."""
    ready = _READY.setdefault(settings, {})
    if len(ready) + len(texts) > REMEMBERED:
        ready.clear()
    new = sorted(text for text in texts if text not in ready)
    ready.update(zip(new, prepare_texts(new, settings), strict=True))
    return ready


Overlaps = Mapping[tuple[str, str], Overlap]
"""By (suffix, continuation)."""

OFF = (
    "Paraphrases were not looked for: no scorer was named with --paraphraser. Passages that are "
    "similar without being copied or expanded do not count."
)


@dataclass(frozen=True)
class Entities:
    """An entity finder that returns the strings a PII detector finds, with a cache."""

    detector: PiiDetector
    cache: dict[str, frozenset[str]] = field(default_factory=dict)

    def find(self, texts: Sequence[str]) -> Sequence[Collection[str]]:
        """Return the entities of each text."""
        if missing := [text for text in dict.fromkeys(texts) if text not in self.cache]:
            for text, spans in zip(missing, self.detector.detect(missing), strict=True):
                self.cache[text] = frozenset(text[span.start : span.end] for span in spans)
        return [self.cache[text] for text in texts]


def pair_categories(
    overlaps: Overlaps,
    scorer: Paraphraser | None,
    detector: Callable[[], PiiDetector],
    *,
    compat: bool,
) -> dict[tuple[str, str], tuple[Category, ...]]:
    """Return the categories of each (suffix, continuation) pair, without pairs that have none."""
    if scorer is None:
        categories = {pair: hit_categories(overlap) for pair, overlap in overlaps.items()}
        return {pair: names for pair, names in categories.items() if names}
    pairs = {
        pair: None
        for (suffix, text), overlap in overlaps.items()
        for pair in sentence_pairs(suffix, text, overlap, compat=compat)
    }
    scores = CachedScores(dict(zip(pairs, map(float, scorer.score(list(pairs))), strict=True)))
    finder = Entities(detector())
    finder.find([s.lower() if compat else s for s in dict.fromkeys(s for p in pairs for s in p)])
    categories = {
        (suffix, text): hit_categories(
            overlap, paraphrases(suffix, text, overlap, scores, finder, compat=compat)
        )
        for (suffix, text), overlap in overlaps.items()
    }
    return {pair: names for pair, names in categories.items() if names}


def paraphrase_caveats(scorer: Paraphraser | None, detector: Callable[[], PiiDetector]) -> str:
    """Return the report's caveat about this stage."""
    if scorer is None:
        return OFF
    return (
        f"Paraphrases were judged by {scorer.describe()}. Two sentences count as the same only if "
        "the entities of one are among those of the other; they were found by "
        f"{detector().describe()}."
    )


Clients = Mapping[str, ClientSample]


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """A prefix of a client, and the model's continuation of it."""

    client: str
    split: PrefixSuffix
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelContinuations:
    """One model's continuations that count, and each client's number of repetitive ones."""

    source: str
    texts: tuple[Continuation, ...]
    repetitive: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A match of a continuation with a client's suffix."""

    victim: str
    split: SearchedText
    """The text to which the suffix belongs."""
    overlap: Overlap
    categories: tuple[Category, ...]

    @property
    def training_spans(self) -> list[tuple[int, int]]:
        """The matched passages of the suffix."""
        return [(start, end) for start, end, _, _ in self.overlap.spans]

    @property
    def generated_spans(self) -> list[tuple[int, int]]:
        """The matched passages of the continuation."""
        return [(start, end) for _, _, start, end in self.overlap.spans]

    @property
    def passage(self) -> str:
        """The longest matched passage of the suffix."""
        start, end = max(self.training_spans, key=lambda span: span[1] - span[0])
        return self.split.suffix[start:end]


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedContinuation:
    """A continuation, and its matches with clients' suffixes."""

    continued: Continuation
    hits: tuple[Match, ...]

    def prefix_hits(self) -> PrefixHits:
        """Return the (victim, category) pairs that the ratios count."""
        pairs = {(hit.victim, name): None for hit in self.hits for name in hit.categories}
        return PrefixHits(self.continued.client, tuple(pairs))


def continue_prefixes(
    engine: Engine,
    target: Target,
    clients: Clients,
    protocol: Protocol,
    *,
    begin: Sequence[int],
    seed: int,
    progress: Progress = no_progress,
) -> ModelContinuations:
    """Sample one continuation of every prefix; repetitive ones do not count (App. E.5).

    Texts with the same prefix get a sample each, in the order of their suffixes; a text that
    several clients have gets the same sample. So neither the clients' names nor their order matter.
    """
    client_splits = [(name, split) for name, sample in clients.items() for split in sample.splits]
    suffixes: dict[tuple[int, ...], set[str]] = {}
    for _, split in client_splits:
        suffixes.setdefault(split.prompt, set()).add(split.suffix)
    sampled_texts = _sample_texts(
        engine, target, suffixes, protocol, begin=begin, seed=seed, progress=progress
    )
    every = [
        Continuation(client=name, split=split, text=sampled_texts[split.prompt, split.suffix])
        for name, split in client_splits
    ]
    odd = [has_repeats(c.text) for c in every]
    return ModelContinuations(
        source=target.name,
        texts=tuple(c for c, left_out in zip(every, odd, strict=True) if not left_out),
        repetitive={
            name: sum(o for c, o in zip(every, odd, strict=True) if c.client == name)
            for name in clients
        },
    )


def _sample_texts(
    engine: Engine,
    target: Target,
    suffixes: Mapping[tuple[int, ...], Collection[str]],
    protocol: Protocol,
    *,
    begin: Sequence[int],
    seed: int,
    progress: Progress,
) -> dict[tuple[tuple[int, ...], str], str]:
    """Return a continuation by (prompt, suffix); with greedy decoding, all suffixes share one."""
    prompts = sorted(suffixes)
    new = new_token_count(engine, [len(begin) + len(prompt) for prompt in prompts], protocol)
    greedy = protocol.decoding == "greedy"
    requests = [
        GenerationRequest(
            prompt=(*begin, *prompt),
            samples=1 if greedy else len(suffixes[prompt]),
            max_new_tokens=new,
        )
        for prompt in prompts
    ]
    batch = GenerationBatch(requests, seed=seed, decoding=protocol.sampling_params())
    completions = engine.generate(target, batch, progress=progress)
    return {
        (prompt, suffix): answer.texts[0 if greedy else index]
        for prompt, answer in zip(prompts, completions, strict=True)
        for index, suffix in enumerate(sorted(suffixes[prompt]))
    }


def new_token_count(engine: Engine, lengths: Sequence[int], protocol: Protocol) -> int:
    """Return the number of new tokens: the protocol's, or as many as fit into the context.

    Raises InputError if a prefix fills the context.
    """
    longest = max(lengths, default=0)
    if longest >= engine.context_length:
        raise InputError(
            f"A prefix with all that precedes it has {longest:,} tokens, which fills the model's "
            f"context ({engine.context_length:,}): take a shorter --prefix-length."
        )
    return min(protocol.new_tokens, engine.context_length - longest)


def candidate_pairs(
    continuations: ModelContinuations,
    clients: Clients,
    protocol: Protocol,
    progress: Progress = no_progress,
) -> list[list[tuple[str, SearchedText]]]:
    """Return for each continuation the (client, suffix) pairs that it is compared with.

    Another client's text is not compared if the prefix's client has it too, or has one with the
    same suffix: a shared text is not secret, and counts as the prefix's client's own.
    """
    candidates: list[list[tuple[str, SearchedText]]] = [[] for _ in continuations.texts]
    names = [name for name, sample in clients.items() if sample.splits]
    limit = None if protocol.all_pairs else protocol.retrieved
    for number, owner in enumerate(names):
        texts = clients[owner].searched
        index = Index([text.suffix for text in texts])
        for asker in names:
            allowed = {id(text) for text in looked_for(clients, asker, owner)}
            # As many more are retrieved as may have to be left out.
            enough = None if limit is None else limit + len(texts) - len(allowed)
            rows = [i for i, c in enumerate(continuations.texts) if c.client == asker and c.text]
            said = list(dict.fromkeys(continuations.texts[i].text for i in rows))
            chosen = {
                text: [texts[i] for i in best if id(texts[i]) in allowed][:limit]
                for text, best in zip(said, index.nearest(said, enough), strict=True)
            }
            for row in rows:
                candidates[row] += [(owner, text) for text in chosen[continuations.texts[row].text]]
        progress(number + 1, len(names))
    return candidates


def looked_for(clients: Clients, asker: str, owner: str) -> Sequence[SearchedText]:
    """Return the suffixes of `owner` that a prefix of `asker` can hit, in a fixed order."""
    texts = clients[owner].searched
    if asker == owner or not clients[asker].shares_any(clients[owner]):
        return texts
    return [text for text in texts if not clients[asker].has(text)]


def count_looked_for(clients: Clients) -> dict[tuple[str, str], int]:
    """Return how many suffixes of `owner` a prefix of `asker` can hit, by (asker, owner)."""
    names = [name for name, sample in clients.items() if sample.splits]
    return {(j, k): len(looked_for(clients, j, k)) for j in names for k in names}


def shared_text_caveats(clients: Clients) -> Iterator[str]:
    """Yield the caveats about texts that two clients share."""
    names = sorted(clients)
    for index, left in enumerate(names):
        for right in names[index + 1 :]:
            left_sample, right_sample = clients[left], clients[right]
            texts, suffixes = (
                left_sample.text_digests & right_sample.text_digests,
                left_sample.suffixes & right_sample.suffixes,
            )
            if count := max(len(texts), len(suffixes)):
                yield (
                    f"{left} and {right} share {count:,} texts: what their prefixes draw of these "
                    "counts as their own, not as the other's."
                )


def match_continuations(
    continuations: ModelContinuations,
    compared_with: Sequence[Sequence[tuple[str, SearchedText]]],
    overlaps: Mapping[tuple[str, str], Overlap],
    named: Mapping[tuple[str, str], tuple[Category, ...]],
) -> list[MatchedContinuation]:
    """Return each continuation with its matches; `named` gives categories by (suffix, text)."""
    answers = []
    for continuation, candidates in zip(continuations.texts, compared_with, strict=True):
        hits = (
            Match(
                victim=owner,
                split=split,
                overlap=overlaps[split.suffix, continuation.text],
                categories=named[split.suffix, continuation.text],
            )
            for owner, split in candidates
            if named.get((split.suffix, continuation.text))
        )
        answers.append(MatchedContinuation(continued=continuation, hits=tuple(hits)))
    return answers
