"""What a model's continuations have of the clients' suffixes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fedaudit.api.engine import Engine, GenerationBatch
from fedaudit.api.errors import InputError
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import GenerationRequest, Target
from fedaudit.audit.memorization.options import Protocol
from fedaudit.audit.memorization.splits import ClientSample, PrefixSuffix
from fedaudit.metrics.bm25 import nearest_documents
from fedaudit.metrics.memorization import Probed, has_repeats
from fedaudit.metrics.overlap import Category, Overlap

Clients = Mapping[str, ClientSample]


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """A prefix of a client, and how the model went on."""

    client: str
    part: PrefixSuffix
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelContinuations:
    """All that one model said: what counts, and how many continuations of each client do not."""

    source: str
    texts: tuple[Continuation, ...]
    repetitive: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A continuation that has something of a client's suffix."""

    victim: str
    part: PrefixSuffix
    """Of the suffix."""
    overlap: Overlap
    categories: tuple[Category, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedContinuation:
    """A continuation, and all that it has of anybody."""

    continued: Continuation
    hits: tuple[Match, ...]

    def probed(self) -> Probed:
        """Return what the ratios count."""
        found = {(hit.victim, name): None for hit in self.hits for name in hit.categories}
        return Probed(self.continued.client, tuple(found))


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
    """Let a model continue every prefix once; repetitive continuations are set apart (App. E.5).

    Texts of one prefix get a sample each, in the order of their suffixes; a text that several
    clients have gets the same one. So neither the clients' names nor their order matter.
    """
    parts = [(name, part) for name, one in clients.items() for part in one.parts]
    suffixes: dict[tuple[int, ...], set[str]] = {}
    for _, part in parts:
        suffixes.setdefault(part.prompt, set()).add(part.suffix)
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
    given = engine.generate(
        target,
        GenerationBatch(requests, seed=seed, decoding=protocol.sampling_params()),
        progress=progress,
    )
    said = {
        (prompt, suffix): answer.texts[0 if greedy else at]
        for prompt, answer in zip(prompts, given, strict=True)
        for at, suffix in enumerate(sorted(suffixes[prompt]))
    }
    every = [
        Continuation(client=name, part=part, text=said[part.prompt, part.suffix])
        for name, part in parts
    ]
    odd = [has_repeats(one.text) for one in every]
    return ModelContinuations(
        source=target.name,
        texts=tuple(one for one, left_out in zip(every, odd, strict=True) if not left_out),
        repetitive={
            name: sum(o for one, o in zip(every, odd, strict=True) if one.client == name)
            for name in clients
        },
    )


def continue_all(
    engine: Engine,
    models: Sequence[Target],
    clients: Clients,
    protocol: Protocol,
    *,
    begin: Sequence[int],
    seed: int,
    watch: Callable[[str], Progress],
) -> list[ModelContinuations]:
    """Let every model continue every prefix."""
    return [
        continue_prefixes(
            engine,
            model,
            clients,
            protocol,
            begin=begin,
            seed=seed,
            progress=watch(f"continuing prefixes: {model.name}"),
        )
        for model in models
    ]


def new_token_count(engine: Engine, lengths: Sequence[int], protocol: Protocol) -> int:
    """Return how many tokens are written: as many as asked for, or as the context has room for."""
    longest = max(lengths, default=0)
    if longest >= engine.context_length:
        raise InputError(
            f"A prefix with all that stands before it has {longest:,} tokens, as many as the "
            f"model's context ({engine.context_length:,}) or more: take a shorter --prefix-length."
        )
    return min(protocol.new_tokens, engine.context_length - longest)


def candidate_pairs(
    heard: ModelContinuations,
    clients: Clients,
    protocol: Protocol,
    progress: Progress = no_progress,
) -> list[list[tuple[str, PrefixSuffix]]]:
    """Return for each continuation the (client, suffix) pairs that it is compared with.

    A text that the prefix's own client has as well, or that ends like one of its own, is not looked
    for at another: what both have is nobody's secret, and it counts as the own client's.
    """
    found: list[list[tuple[str, PrefixSuffix]]] = [[] for _ in heard.texts]
    names = [name for name, one in clients.items() if one.parts]
    for number, (asker, owner) in enumerate((j, k) for j in names for k in names):
        rows = [at for at, one in enumerate(heard.texts) if one.client == asker and one.text]
        parts = looked_for(clients, asker, owner)
        texts = {heard.texts[at].text: None for at in rows}
        best = (
            nearest_documents(list(texts), [p.suffix for p in parts], _most(protocol))
            if parts
            else []
        )
        chosen = dict(zip(texts, best, strict=False))
        for at in rows:
            found[at] += [(owner, parts[i]) for i in chosen.get(heard.texts[at].text, ())]
        progress(number + 1, len(names) ** 2)
    return found


def looked_for(clients: Clients, asker: str, owner: str) -> list[PrefixSuffix]:
    """Return the suffixes of `owner` that a prefix of `asker` may draw, in one fixed order."""
    parts = sorted(clients[owner].parts, key=lambda part: (part.suffix, part.document))
    if asker == owner:
        return parts
    return [part for part in parts if not clients[asker].has(part)]


def _most(protocol: Protocol) -> int | None:
    return None if protocol.all_pairs else protocol.retrieved


def shared_text_caveats(clients: Clients) -> Iterator[str]:
    """Yield what the report says of texts that two clients have."""
    names = sorted(clients)
    for at, one in enumerate(names):
        for other in names[at + 1 :]:
            ours, theirs = clients[one], clients[other]
            wholes, ends = ours.wholes & theirs.wholes, ours.suffixes & theirs.suffixes
            if both := max(len(wholes), len(ends)):
                yield (
                    f"{one} and {other} share {both:,} texts: what their prefixes draw of these "
                    "counts as their own, not as the other's."
                )


def match_continuations(
    heard: ModelContinuations,
    compared_with: Sequence[Sequence[tuple[str, PrefixSuffix]]],
    overlaps: Mapping[tuple[str, str], Overlap],
    named: Mapping[tuple[str, str], tuple[Category, ...]],
) -> list[MatchedContinuation]:
    """Return the answers: each continuation with its hits, `named` by (suffix, continuation)."""
    answers = []
    for one, parts in zip(heard.texts, compared_with, strict=True):
        hits = (
            Match(
                victim=owner,
                part=part,
                overlap=overlaps[part.suffix, one.text],
                categories=named[part.suffix, one.text],
            )
            for owner, part in parts
            if named.get((part.suffix, one.text))
        )
        answers.append(MatchedContinuation(continued=one, hits=tuple(hits)))
    return answers
