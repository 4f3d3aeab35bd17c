"""Prefixes and suffixes: a sample of each client's distinct texts, each cut in two."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median_low
from typing import TYPE_CHECKING

from fedaudit.api.engine import Engine
from fedaudit.api.records import Document, Tokens
from fedaudit.api.templates import PromptTemplate
from fedaudit.audit.request import MIN_SUFFIX_TOKENS, Protocol

if TYPE_CHECKING:
    from fedaudit.audit.request import MemorizationRequest

BATCH = 1024
"""Texts per tokenizer call: the offsets of a whole corpus would not fit in memory."""

MARK = "\x00"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedText:
    """A text that continuations are compared with: the suffix of a cut text."""

    document: str
    suffix: str
    suffix_digest: bytes = b""
    """A hash of the suffix, equal for copies with other white space."""
    text_digest: bytes = b""
    """A hash of the whole text, equal for copies wherever they are cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixSuffix(SearchedText):
    """A text cut in two: the prefix for the prompt, and the suffix that may be memorized."""

    prompt: tuple[int, ...]
    input_tokens: int
    """The number of tokens of the whole input text."""
    output_tokens: int
    """The number of tokens of the record's output, without the template's own."""

    def searched_text(self) -> SearchedText:
        """Return the suffix without the prompt, which takes most of the memory."""
        return SearchedText(
            document=self.document,
            suffix=self.suffix,
            suffix_digest=self.suffix_digest,
            text_digest=self.text_digest,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSample:
    """The sample of one client's documents, and counts of what was left out."""

    documents: int
    """The number of training documents, which is the client's weight."""
    splits: tuple[PrefixSuffix, ...]
    """The texts that were drawn: their prefixes are asked."""
    searched: tuple[SearchedText, ...] = field(repr=False)
    """The texts that continuations are compared with, in a fixed order."""
    long_enough: int
    too_short: int
    copies: int
    """The number of documents whose input text an earlier one has."""
    prompts: int
    """The number of ready-made prompts, which are not trained on."""
    answers: int
    """The number of different outputs of records, of which only the input is looked for."""
    suffixes: frozenset[bytes] = field(repr=False)
    """The hashes of all suffixes of the client, sampled or not."""
    text_digests: frozenset[bytes] = field(repr=False)
    """The hashes of all its texts that are long enough, sampled or not."""

    @property
    def searchable(self) -> int:
        """The number of texts that continuations can be compared with."""
        return self.long_enough

    def has(self, text: SearchedText) -> bool:
        """Tell whether the client has the same text, or one with the same suffix."""
        return text.text_digest in self.text_digests or text.suffix_digest in self.suffixes

    def shares_any(self, other: "ClientSample") -> bool:
        """Tell whether the clients have some text or suffix in common."""
        return not (
            self.text_digests.isdisjoint(other.text_digests)
            and self.suffixes.isdisjoint(other.suffixes)
        )


def normalize_copy(text: str) -> str:
    """Return `text` with white space normalised, so that copies are equal."""
    return " ".join(text.split())


def sample_splits(
    documents: Sequence[Document],
    engine: Engine,
    form: PromptTemplate,
    protocol: Protocol,
    *,
    seed: int,
) -> ClientSample:
    """Return at most `protocol.sample` split texts, drawn without replacement, and all suffixes.

    The draw depends on the seed and the texts alone, not on their order or owner. Copies count
    once, and texts of fewer than prefix + 20 tokens do not count. The paper looks for the suffixes
    of a sample only, as `protocol.compat` does; its definition is about all suffixes.
    """
    training_documents = [document for document in documents if not document.is_prompt]
    unique_documents = _distinct(training_documents, form, seed)
    splits: list[PrefixSuffix] = []
    searched: list[SearchedText] = []
    suffixes: set[bytes] = set()
    text_digests: set[bytes] = set()
    long_enough = 0
    for split in _cut(unique_documents, engine, form, protocol):
        long_enough += 1
        suffixes.add(split.suffix_digest)
        text_digests.add(split.text_digest)
        drawn = len(splits) < protocol.sample
        if drawn:
            splits.append(split)
        if drawn or not protocol.compat:
            searched.append(split.searched_text())
    return ClientSample(
        documents=len(training_documents),
        splits=tuple(splits),
        searched=tuple(sorted(searched, key=lambda text: (text.suffix, text.document))),
        long_enough=long_enough,
        too_short=len(unique_documents) - long_enough,
        copies=len(training_documents) - len(unique_documents),
        prompts=len(documents) - len(training_documents),
        answers=_count_answers(training_documents, form),
        suffixes=frozenset(suffixes),
        text_digests=frozenset(text_digests),
    )


def _distinct(documents: Sequence[Document], form: PromptTemplate, seed: int) -> list[Document]:
    """Return one document per distinct input text, in the order of the draw."""
    first: dict[str, Document] = {}
    for document in sorted(documents, key=lambda d: d.id):
        start, end = input_span(document, form)
        first.setdefault(normalize_copy(document.text[start:end]), document)

    return [first[text] for text in sorted(first, key=lambda text: _digest(f"{seed}:{text}"))]


def _count_answers(documents: Sequence[Document], form: PromptTemplate) -> int:
    """Return the number of different outputs that are not part of the text that is cut."""
    outputs = {
        normalize_copy(document.output)
        for document in documents
        if document.output and input_span(document, form) != (0, len(document.text))
    }
    return len(outputs - {""})


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def input_span(document: Document, form: PromptTemplate) -> tuple[int, int]:
    """Return the span of the input in a record's text; the whole text if there is none.

    The input is what the record is about (App. E.3), or the instruction of a record without input.
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
    """Yield the split texts of documents that are long enough, in order."""
    header = form.header() if protocol.prompt == "header" else ""
    [ahead] = engine.tokenize([header]) if header else [Tokens((), ())]
    for document, tokens in _tokenize(documents, engine):
        is_whole = protocol.prompt == "record" or not document.instruction
        result = _split_document(
            document, tokens, input_span(document, form), protocol.prefix_length
        )
        if result is not None:
            cut, begin = result
            yield cut if is_whole else replace(cut, prompt=(*ahead.ids, *cut.prompt[begin:]))


def _tokenize(documents: Sequence[Document], engine: Engine) -> Iterator[tuple[Document, Tokens]]:
    """Yield each document with its tokens, without holding all tokens in memory."""
    for first in range(0, len(documents), BATCH):
        batch = documents[first : first + BATCH]
        yield from zip(batch, engine.tokenize([document.text for document in batch]), strict=True)


def _input(tokens: Tokens, where: tuple[int, int]) -> tuple[int, int]:
    """Return the range [begin, after) of an input's tokens.

    A token that reaches into the input belongs to it.
    """
    (start, end), offsets = where, tokens.offsets
    begin = next((i for i, (_, last) in enumerate(offsets) if last > start), len(offsets))
    after = next((i for i, (first, _) in enumerate(offsets) if first >= end), len(offsets))
    return begin, after


def _split_document(
    document: Document, tokens: Tokens, where: tuple[int, int], length: int
) -> tuple[PrefixSuffix, int] | None:
    """Return the split text and the index of its input's first token; None if it is too short.

    A character that spans several tokens is not cut: the prefix then has a token or two more.
    """
    (start, end), offsets = where, tokens.offsets
    begin, after = _input(tokens, where)
    if after - begin < length + MIN_SUFFIX_TOKENS:
        return None
    stop = begin + length
    cut = max(last for _, last in offsets[begin:stop])
    while stop < after and offsets[stop][0] < cut:
        cut, stop = max(cut, offsets[stop][1]), stop + 1
    suffix = document.text[cut:end].strip()
    split = PrefixSuffix(
        document=document.id,
        prompt=tuple(tokens.ids[:stop]),
        suffix=suffix,
        suffix_digest=_digest(normalize_copy(suffix)),
        input_tokens=after - begin,
        output_tokens=_count_output_tokens(document, offsets[after:]),
        text_digest=_digest(normalize_copy(document.text[start:end])),
    )
    return split, begin


def _count_output_tokens(document: Document, offsets: Sequence[tuple[int, int]]) -> int:
    """Return the number of tokens after a record's input that belong to its output.

    Tokens of the template between them do not count; a token that reaches into the output does.
    """
    begin = document.text.rfind(document.output) if document.output else -1
    end = begin + len(document.output)
    return sum(first < end and last > begin for first, last in offsets) if begin >= 0 else 0


def unused_text_caveats(clients: Mapping[str, ClientSample], protocol: Protocol) -> Iterator[str]:
    """Yield caveats about texts that were not used, client by client."""
    for name, sample in clients.items():
        if not sample.documents:
            yield f"{name} has no documents: nothing is asked with its prefixes, or looked for."
            continue
        if sample.too_short:
            yield (
                f"{name}: {sample.too_short:,} of {sample.documents - sample.copies:,} different "
                f"texts have fewer than {protocol.min_tokens:,} tokens and were left out."
            )
        if sample.answers:
            yield (
                f"{name}: {sample.answers:,} answers were not looked for: of a record with an "
                "instruction, only the input is."
            )
        if sample.copies:
            yield f"{name}: {sample.copies:,} copies of other texts of its own were left out."
        if sample.prompts:
            yield f"{name}: {sample.prompts:,} ready-made prompts are not training texts: left out."
        if 0 < sample.long_enough < protocol.sample:
            yield (
                f"{name} has {sample.long_enough:,} texts that are long enough, fewer than the "
                f"{protocol.sample:,} to be drawn: all were used."
            )
        if sample.long_enough > protocol.sample:
            looked_for = "only their suffixes" if protocol.compat else "the suffixes of all"
            yield (
                f"{name}: the prefixes of {protocol.sample:,} of {sample.long_enough:,} texts were "
                f"asked; {looked_for} were looked for."
            )


def choose_prefix_length(
    request: "MemorizationRequest",
    files: Mapping[str, Sequence[Document]],
    engine: Engine,
    form: PromptTemplate,
) -> tuple["MemorizationRequest", list[str]]:
    """Return the request, with a shorter prefix if it allows that and texts need it, and a caveat.

    The prefix is as long as half of the clients' different texts allow. If that leaves no token,
    nothing is changed.
    """
    protocol = request.protocol
    sizes = list(text_lengths(files.values(), engine, form)) if request.shorter else []
    length = median_low(sizes) - MIN_SUFFIX_TOKENS if sizes else 0
    if not 0 < length < protocol.prefix_length:
        return request, []
    note = (
        f"A prefix has {length:,} tokens, not {protocol.prefix_length:,}: half of the texts have "
        f"fewer than {protocol.min_tokens:,} tokens."
    )
    return replace(request, protocol=replace(protocol, prefix_length=length)), [note]


def too_short(
    files: Iterable[Sequence[Document]], engine: Engine, form: PromptTemplate, protocol: Protocol
) -> str:
    """Return the message that no text is long enough, with the longest possible prefix."""
    none = (
        f"No client has a text of at least {protocol.min_tokens:,} tokens: there is nothing to ask."
    )
    longest = max(text_lengths(files, engine, form), default=0)
    if longest <= MIN_SUFFIX_TOKENS:
        return (
            f"{none} The longest has {longest:,}, and any prefix needs {MIN_SUFFIX_TOKENS + 1:,}."
        )
    return f"{none} Take a shorter --prefix-length, of {longest - MIN_SUFFIX_TOKENS:,} at most."


def text_lengths(
    files: Iterable[Sequence[Document]], engine: Engine, form: PromptTemplate
) -> Iterator[int]:
    """Yield the numbers of tokens of the different input texts of each client."""
    for documents in files:
        texts = [document for document in documents if not document.is_prompt]
        for document, tokens in _tokenize(_distinct(texts, form, seed=0), engine):
            begin, after = _input(tokens, input_span(document, form))
            yield after - begin
