"""Documents cut in two, and how near a model's continuation comes (FedPII, appendix B.4)."""

import math
import random
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fedaudit.api import (
    AttackContext,
    Document,
    Engine,
    GenerationBatch,
    GenerationRequest,
    Measurement,
    SamplingParams,
    Target,
    Tokens,
)
from fedaudit.extraction.targets import exclusive_strings

LABEL = "DOCUMENT"
"""What a finding calls text that is not personal data of one kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSplit:
    """A document in two parts: what is given, and what must follow."""

    prompt: tuple[int, ...]
    suffix: tuple[int, ...]
    """The tokens of `text` alone, which are compared."""
    text: str
    task: str
    group: str = ""
    continuation: tuple[int, ...] = ()
    """The tokens that follow the prompt in the document, which spell `text`."""
    document: str = ""
    """The whole document."""
    start: int = 0
    """Where `text` begins in it."""

    def cluster(self, index: int) -> str:
        """Return what the document, at `index` of some, depends on: its group, or itself."""
        return f"group {self.group}" if self.group else f"text {index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenContinuation:
    """What one model wrote for each document, and how many token edits it is from the truth."""

    texts: tuple[str, ...]
    distances: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuedDocuments:
    """Documents, and what the model and its base wrote behind their beginnings."""

    splits: Sequence[DocumentSplit]
    tuned: WrittenContinuation
    base: WrittenContinuation | None

    def recited(self) -> list[int]:
        """Return the documents that the model continued word for word and its base did not."""
        return [
            i
            for i, distance in enumerate(self.tuned.distances)
            if not distance and self.base is not None and self.base.distances[i]
        ]

    def models(self) -> dict[str, WrittenContinuation]:
        """Return what each model wrote, by the name of its source."""
        return {"tuned": self.tuned} | ({"base": self.base} if self.base else {})


def split_by_task(
    splits: Sequence[DocumentSplit],
) -> Iterator[tuple[Mapping[str, object], list[int]]]:
    """Yield the scope and the indices of all splits, then of those of each task."""
    yield {}, list(range(len(splits)))
    for task in sorted({split.task for split in splits} - {""}):
        yield {"task": task}, [i for i, split in enumerate(splits) if split.task == task]


def query_rows(
    plugin: str, sources: Iterable[str], questions: int, records: str
) -> Iterator[Measurement]:
    """Yield how many questions each model was asked."""
    for source in sources:
        yield Measurement(
            kind="extraction",
            plugin=plugin,
            metric="queries",
            value=float(questions),
            scope={"source": source, "records": records},
        )


def answer_greedily(
    context: AttackContext, target: Target, requests: Iterable[GenerationRequest]
) -> dict[GenerationRequest, str]:
    """Return one model's greedy answers; equal requests are asked once."""
    distinct = list(dict.fromkeys(requests))
    generations = context.engine.generate(
        target,
        GenerationBatch(distinct, seed=context.seed, decoding=SamplingParams(temperature=0)),
        progress=context.progress(f"asking {target.name}"),
    )
    return {request: g.texts[0] for request, g in zip(distinct, generations, strict=True)}


def split_documents(
    context: AttackContext, documents: Sequence[Document], prefix: int, suffix: int, shortest: int
) -> tuple[list[DocumentSplit], int]:
    """Return `documents` in two parts, sorted, and how many are too short for it.

    Every distinct text counts once. The first part is `prefix` tokens, at most half of the text
    and no more than the model's context leaves room for; the second up to `suffix` tokens.
    """
    order = sorted(documents, key=lambda d: d.group, reverse=True)
    texts = sorted({(d.text, d.task): d for d in order if not d.is_prompt}.items())
    tokenized = context.engine.tokenize([text for (text, _), _ in texts])
    begin = len(context.with_start((), at_start=True))
    room = max(0, context.engine.context_length - begin - suffix)
    result = [
        split
        for (_, document), tokens in zip(texts, tokenized, strict=True)
        if (split := _split_document(context, document, tokens, min(prefix, room), suffix))
        and len(split.suffix) >= shortest
    ]
    return result, len(texts) - len(result)


def exclusive_splits(
    context: AttackContext, splits: Sequence[DocumentSplit]
) -> tuple[list[DocumentSplit], int]:
    """Return the splits whose second part only the victim has, and the number of the others.

    The attacker or another member may have the text as well, however it writes it: then it is no
    leak of the victim's. Without a victim the documents are the attacker's own, and all stay.
    """
    free = exclusive_strings(context, (split.text for split in splits))
    own = [split for split in splits if split.text in free]
    return own, len(splits) - len(own)


def _split_document(
    context: AttackContext, document: Document, tokens: Tokens, prefix: int, suffix: int
) -> DocumentSplit | None:
    middle = _clean(tokens, min(prefix, len(tokens.ids) // 2))
    end = _clean(tokens, min(middle + suffix, len(tokens.ids)))
    if not 0 < middle < end:
        return None
    last = tokens.offsets[end - 1][1]
    text = document.text[tokens.offsets[middle][0] : last].lstrip()
    [text_tokens] = context.engine.tokenize([text])
    prompt = context.with_start(tokens.ids[:middle], at_start=True)
    return DocumentSplit(
        prompt=prompt,
        suffix=text_tokens.ids[:suffix],
        text=text,
        task=document.task,
        group=document.group,
        continuation=tokens.ids[middle:end],
        document=document.text,
        start=last - len(text),
    )


def _clean(tokens: Tokens, index: int) -> int:
    """Return the last place up to `index` that does not cut through a character."""
    offsets = tokens.offsets
    while 0 < index < len(offsets) and offsets[index][0] < offsets[index - 1][1]:
        index -= 1
    return index


def draw_splits(splits: Sequence[DocumentSplit], count: int, seed: int) -> list[DocumentSplit]:
    """Return `count` of `splits` in their order, drawn at random; all for 0."""
    if not 0 < count < len(splits):
        return list(splits)
    chosen = random.Random(f"verbatim {seed}").sample(range(len(splits)), count)
    return [splits[index] for index in sorted(chosen)]


def compare_continuations(
    engine: Engine, splits: Sequence[DocumentSplit], texts: Sequence[str]
) -> WrittenContinuation:
    """Return each continuation's distance from the truth, in tokens of both texts as they stand.

    White space that leads either is not compared, nor what is written after as many tokens as the
    truth has; so a distance is at most that number.
    """
    written = engine.tokenize([text.lstrip() for text in texts])
    distances = tuple(
        0
        if begins_with_truth(text, split.text)
        else edit_distance(tokens.ids[: len(split.suffix)], split.suffix)
        for split, text, tokens in zip(splits, texts, written, strict=True)
    )
    return WrittenContinuation(texts=tuple(texts), distances=distances)


def begins_with_truth(written: str, truth: str) -> bool:
    """Tell whether what was written begins with the truth, leading white space aside."""
    # A tokenizer may merge the truth's last token with what follows it: that is not a difference.
    return written.lstrip().startswith(truth)


def swap_partners(splits: Sequence[DocumentSplit], seed: int) -> list[tuple[int, int]]:
    """Return for each document another one of its task, as indices; none where it has no other.

    What follows in the other document is the control: what many documents have in common is no
    leak of one of them.
    """
    rng = random.Random(f"verbatim control {seed}")
    groups: dict[str, list[int]] = {}
    for index, split in enumerate(splits):
        groups.setdefault(split.task, []).append(index)
    pairs: list[tuple[int, int]] = []
    for _, group in sorted(groups.items()):
        if len(group) > 1:
            shift = rng.randrange(1, len(group))
            pairs += zip(group, group[shift:] + group[:shift], strict=True)
    return pairs


def edit_distance(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Return the fewest insertions, deletions and substitutions that make one the other.

    Levenshtein 1965, in units of the sequences' elements; at most the longer one's length.
    """
    from rapidfuzz.distance import Levenshtein

    return int(Levenshtein.distance(first, second))


def sample_deviation(values: Sequence[float]) -> float | None:
    """Return the standard deviation of a sample (n - 1 below), None for less than two values."""
    if len(values) < 2:
        return None
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
