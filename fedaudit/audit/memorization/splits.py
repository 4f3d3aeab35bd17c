"""Prefixes and suffixes: the clients' texts, drawn, cut in two and without copies."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fedaudit.api.engine import Engine
from fedaudit.api.records import Document, Tokens
from fedaudit.api.templates import PromptTemplate
from fedaudit.audit.memorization.options import MIN_SUFFIX_TOKENS, Protocol

BATCH = 1024
"""Texts that are tokenised together: the offsets of a whole corpus would not fit in memory."""

MARK = "\x00"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixSuffix:
    """A text cut in two: what the model is given, and what it may know."""

    document: str
    prompt: tuple[int, ...]
    suffix: str
    input_tokens: int
    """Tokens of the whole input text."""
    output_tokens: int
    """Tokens that the model was trained to answer it with, the template's own left out."""
    text_digest: bytes = b""
    """What equal texts have in common, wherever they are cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSample:
    """What is used of one client's documents, and what is not."""

    documents: int
    """How many there are: its weight."""
    splits: tuple[PrefixSuffix, ...]
    long_enough: int
    too_short: int
    copies: int
    """Documents whose input text another one has too."""
    prompts: int
    """Lines that are ready-made prompts, which nobody was trained on."""
    suffixes: frozenset[str] = field(repr=False)
    """Every suffix of its documents by `normalize_copy`, those not drawn too."""
    text_digests: frozenset[bytes] = field(repr=False)
    """The same of its whole texts."""

    def has(self, split: PrefixSuffix) -> bool:
        """Tell whether the client has a text, or one that ends alike, in any of its documents."""
        return (
            split.text_digest in self.text_digests or normalize_copy(split.suffix) in self.suffixes
        )


def normalize_copy(text: str) -> str:
    """Return `text` so that copies are equal: white space does not count."""
    return " ".join(text.split())


def sample_splits(
    documents: Sequence[Document],
    engine: Engine,
    form: PromptTemplate,
    protocol: Protocol,
    *,
    seed: int,
) -> ClientSample:
    """Return the parts of at most `protocol.sample` texts, drawn without replacement.

    Which texts are drawn follows from the seed and the texts alone: neither their order nor whose
    they are matters. Copies count once, and texts of fewer than prefix + 20 tokens not at all.
    """
    training_documents = [document for document in documents if not document.is_prompt]
    unique_documents = _distinct(training_documents, form, seed)
    splits: list[PrefixSuffix] = []
    suffixes: set[str] = set()
    text_digests: set[bytes] = set()
    long_enough = 0
    for split in _cut(unique_documents, engine, form, protocol):
        long_enough += 1
        suffixes.add(normalize_copy(split.suffix))
        text_digests.add(split.text_digest)
        if len(splits) < protocol.sample:
            splits.append(split)
    return ClientSample(
        documents=len(training_documents),
        splits=tuple(splits),
        long_enough=long_enough,
        too_short=len(unique_documents) - long_enough,
        copies=len(training_documents) - len(unique_documents),
        prompts=len(documents) - len(training_documents),
        suffixes=frozenset(suffixes),
        text_digests=frozenset(text_digests),
    )


def _distinct(documents: Sequence[Document], form: PromptTemplate, seed: int) -> list[Document]:
    """Return one document for each input text, in the order in which they are drawn."""
    first: dict[str, Document] = {}
    for document in sorted(documents, key=lambda d: d.id):
        start, end = input_span(document, form)
        first.setdefault(normalize_copy(document.text[start:end]), document)

    return [first[text] for text in sorted(first, key=lambda text: _digest(f"{seed}:{text}"))]


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def input_span(document: Document, form: PromptTemplate) -> tuple[int, int]:
    """Return where the input stands in a record's text; of a plain text, all of it.

    The input is what the record is about (App. E.3); of a record without one, its instruction.
    """
    text, input_text = document.text, document.input or document.instruction
    if not input_text:
        return 0, len(text)
    filled = (document.instruction, MARK) if document.input else (MARK, "")
    head = form.prompt(*filled).partition(MARK)[0]
    start = len(head) if text.startswith(head + input_text) else text.find(input_text)
    return (start, start + len(input_text)) if start >= 0 else (0, len(text))


def _cut(
    documents: Sequence[Document], engine: Engine, form: PromptTemplate, protocol: Protocol
) -> Iterator[PrefixSuffix]:
    """Yield the parts of the texts that are long enough, in order."""
    header = form.header() if protocol.prompt == "header" else ""
    [ahead] = engine.tokenize([header]) if header else [Tokens((), ())]
    for document, tokens in _tokenize(documents, engine):
        is_whole = protocol.prompt == "record" or not document.instruction
        result = _split_document(
            document, tokens, input_span(document, form), protocol.prefix_length
        )
        if result is not None:
            cut, begin = result
            yield cut if is_whole else _after(cut, ahead.ids, begin)


def _tokenize(documents: Sequence[Document], engine: Engine) -> Iterator[tuple[Document, Tokens]]:
    """Yield each document with its tokens, without holding those of all."""
    for first in range(0, len(documents), BATCH):
        batch = documents[first : first + BATCH]
        yield from zip(batch, engine.tokenize([document.text for document in batch]), strict=True)


def text_sizes(
    documents: Sequence[Document], engine: Engine, form: PromptTemplate
) -> Iterator[int]:
    """Yield how many tokens each different input text has."""
    training_documents = [document for document in documents if not document.is_prompt]
    for document, tokens in _tokenize(_distinct(training_documents, form, seed=0), engine):
        begin, after = _input(tokens, input_span(document, form))
        yield after - begin


def _input(tokens: Tokens, where: tuple[int, int]) -> tuple[int, int]:
    """Return the first token of an input and the first behind it.

    A token that reaches into the input belongs to it.
    """
    (start, end), offsets = where, tokens.offsets
    begin = next((i for i, (_, last) in enumerate(offsets) if last > start), len(offsets))
    after = next((i for i, (first, _) in enumerate(offsets) if first >= end), len(offsets))
    return begin, after


def _split_document(
    document: Document, tokens: Tokens, where: tuple[int, int], length: int
) -> tuple[PrefixSuffix, int] | None:
    """Return a text's part and the token with which its input begins; None if it is too short.

    A character that lies in several tokens is not cut: the prefix then has a token or two more.
    """
    (start, end), offsets = where, tokens.offsets
    begin, after = _input(tokens, where)
    if after - begin < length + MIN_SUFFIX_TOKENS:
        return None
    stop = begin + length
    cut = max(last for _, last in offsets[begin:stop])
    while stop < after and offsets[stop][0] < cut:
        cut, stop = max(cut, offsets[stop][1]), stop + 1
    split = PrefixSuffix(
        document=document.id,
        prompt=tuple(tokens.ids[:stop]),
        suffix=document.text[cut:end].strip(),
        input_tokens=after - begin,
        output_tokens=_count_output_tokens(document, offsets[after:]),
        text_digest=_digest(normalize_copy(document.text[start:end])),
    )
    return split, begin


def _count_output_tokens(document: Document, offsets: Sequence[tuple[int, int]]) -> int:
    """Return how many of the tokens behind a record's input are of its output.

    What the template puts between the two is neither; a token that reaches into the output is.
    """
    begin = document.text.rfind(document.output) if document.output else -1
    end = begin + len(document.output)
    return sum(first < end and last > begin for first, last in offsets) if begin >= 0 else 0


def _after(split: PrefixSuffix, header: tuple[int, ...], begin: int) -> PrefixSuffix:
    """Return a part whose prefix stands behind the header alone."""
    return replace(split, prompt=(*header, *split.prompt[begin:]))


def unused_text_caveats(clients: Mapping[str, ClientSample], protocol: Protocol) -> Iterator[str]:
    """Yield what the report says of texts that were not used, client by client."""
    for name, sample in clients.items():
        if not sample.documents:
            yield f"{name} has no documents: nothing is asked with its prefixes, or looked for."
            continue
        if sample.too_short:
            yield (
                f"{name}: {sample.too_short:,} of {sample.documents - sample.copies:,} different "
                f"texts have fewer than {protocol.min_tokens:,} tokens and were left out."
            )
        if sample.copies:
            yield f"{name}: {sample.copies:,} copies of other texts of its own were left out."
        if sample.prompts:
            yield f"{name}: {sample.prompts:,} ready-made prompts are no training texts: left out."
        if 0 < sample.long_enough < protocol.sample:
            yield (
                f"{name} has {sample.long_enough:,} texts that are long enough, fewer than the "
                f"{protocol.sample:,} to be drawn: all were used."
            )
