"""The prefixes of personal data in a client's own documents (FedPII, section 4.1)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fedaudit.api.engine import Engine
from fedaudit.api.errors import InputError
from fedaudit.api.records import Document
from fedaudit.extraction.leads import Leads

TOKENIZED_TOGETHER = 2**20
"""Characters of documents that are tokenised at a time, or one document of more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PiiOccurrence:
    """One occurrence of PII: the tokens before it, its own, and the character after it."""

    prefix: tuple[int, ...]
    tokens: tuple[int, ...]
    at_start: bool
    """Whether the prefix begins where its document begins."""
    label: str = ""
    after: str = ""
    leads: Leads = ()
    """The text of the first token before the PII, without white space; if several occurrences are
    joined, that of each."""


def pii_occurrences(
    engine: Engine, documents: Sequence[Document], prefix_tokens: int
) -> list[PiiOccurrence]:
    """Return every PII occurrence with the `prefix_tokens` tokens before its first token.

    Near the start of a document the prefix is shorter; empty prefixes are dropped. A token that
    reaches into the PII counts as part of the PII, and its text before the PII is a lead. A
    ready-made prompt is one occurrence, without PII of its own.
    """
    occurrences = []
    for part in document_parts(documents):
        tokenized = engine.tokenize([document.text for document in part])
        for document, tokens in zip(part, tokenized, strict=True):
            if document.is_prompt:
                _check_prompt(engine, document, len(tokens.ids))
                occurrences.append(PiiOccurrence(prefix=tokens.ids, tokens=(), at_start=True))
            else:
                occurrences += _in_document(document, tokens.ids, tokens.offsets, prefix_tokens)
    return [occurrence for occurrence in occurrences if occurrence.prefix]


def document_parts(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Yield documents, some at a time: their tokens take a hundred times the memory of the text."""
    part: list[Document] = []
    characters = 0
    for document in documents:
        part.append(document)
        characters += len(document.text)
        if characters >= TOKENIZED_TOGETHER:
            yield part
            part, characters = [], 0
    if part:
        yield part


def first_token_occurrences(rows: Iterable[Sequence[int]]) -> list[PiiOccurrence]:
    """Return an occurrence for each row of tokens: the first token is the prefix of the rest."""
    return [
        PiiOccurrence(prefix=tuple(row[:1]), tokens=tuple(row[1:]), at_start=True)
        for row in rows
        if len(row) > 1
    ]


def _in_document(
    document: Document,
    ids: Sequence[int],
    offsets: Sequence[tuple[int, int]],
    prefix_tokens: int,
) -> Iterator[PiiOccurrence]:
    for span in document.pii or ():
        first = next((i for i, (_, end) in enumerate(offsets) if end > span.start), len(ids))
        last = next((i for i, (start, _) in enumerate(offsets) if start >= span.end), len(ids))
        begin = max(0, first - prefix_tokens)
        lead = document.text[offsets[first][0] : span.start].strip() if first < len(ids) else ""
        yield PiiOccurrence(
            prefix=tuple(ids[begin:first]),
            tokens=tuple(ids[first:last]),
            at_start=begin == 0,
            label=span.label,
            after=document.text[span.end : span.end + 1],
            leads=(lead,) if lead else (),
        )


def _check_prompt(engine: Engine, document: Document, length: int) -> None:
    if length >= engine.context_length:
        raise InputError(
            f"The prefix {document.id!r} has {length} tokens, more than the context of "
            f"{engine.context_length}; shorten it."
        )
