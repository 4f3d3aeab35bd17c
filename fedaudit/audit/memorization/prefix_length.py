"""The prefix length of `memorize` for short texts, if the user gave none."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median_low
from typing import TYPE_CHECKING

from fedaudit.api.engine import Engine
from fedaudit.api.records import Document
from fedaudit.api.templates import PromptTemplate
from fedaudit.audit.memorization import splits
from fedaudit.audit.memorization.options import MIN_SUFFIX_TOKENS, Protocol

if TYPE_CHECKING:
    from fedaudit.audit.memorization.request import MemorizationRequest


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
    sizes = text_lengths(files.values(), engine, form) if request.shorter else []
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
) -> list[int]:
    """Return the numbers of tokens of the different input texts of each client."""
    corpora = ([d for d in documents if not d.is_prompt] for documents in files)
    return [size for corpus in corpora for size in splits.text_sizes(corpus, engine, form)]
