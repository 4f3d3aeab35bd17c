"""The prompts that drew what was found, for the evidence of findings: numbered, and masked."""

import re
from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from fedaudit.api.plugin import AttackContext, Result
from fedaudit.api.records import Document, Finding
from fedaudit.extraction.prefixes import document_parts
from fedaudit.extraction.query_plan import Query, QueryPlan

COMMON = 3
"""In how many of the attacker's documents a word stands before a masked prompt shows it."""
SHOWN = 160
"""The most characters of a masked prompt that are shown: its end."""
GAP = "…"

ResultT = TypeVar("ResultT", bound=Result)
Prompt = tuple[int, ...]

_WORD = re.compile(r"\w+")


def describe_prompts(
    result: ResultT, context: AttackContext, plan: QueryPlan, documents: Sequence[Document]
) -> ResultT:
    """Return `result` with a description of each prompt that its findings give by number.

    A description has the number, how many tokens, the kinds of the attacker's own PII behind the
    prompt and, if it stands in one of `documents`, its text, of which only harmless words are left.
    """
    numbers = {number for finding in result.findings if (number := _number(finding))}
    if not numbers:
        return result
    queries = {n: query for before, query in plan.numbered() if (n := before + 1) in numbers}
    texts = masked_prompts(context, {query.prompt for query in queries.values()}, documents)
    prompts = {number: _describe(number, query, texts) for number, query in queries.items()}
    findings = tuple(
        replace(
            finding,
            evidence={**finding.evidence, "prompt": prompts[number]},
            safe=(*finding.safe, "prompt"),
        )
        if (number := _number(finding))
        else finding
        for finding in result.findings
    )
    return replace(result, findings=findings)


def _number(finding: Finding) -> int:
    number = finding.evidence.get("prompt")
    return number if isinstance(number, int) else 0


def _describe(number: int, query: Query, texts: Mapping[Prompt, str]) -> dict[str, object]:
    kinds = sorted({label for label, _ in query.kinds if label})
    text = texts.get(query.prompt)
    return {
        "number": number,
        "tokens": len(query.prompt),
        "before": kinds,
        **({"text": text} if text else {}),
    }


def masked_prompts(
    context: AttackContext, prompts: Collection[Prompt], documents: Sequence[Document]
) -> dict[Prompt, str]:
    """Return the masked text of every prompt that stands in one of `documents`.

    Annotated PII becomes its kind in brackets. A detector may have missed some, so of the rest a
    word is shown only if it consists of letters, stands in at least COMMON documents, and is no
    part of annotated PII, neither the attacker's nor the victim's.
    """
    words = _harmless_words(documents, context.victim or ())
    return {
        prompt: _mask(document, begin, end, words)
        for prompt, document, begin, end in _find(context, prompts, documents)
    }


def _find(
    context: AttackContext, prompts: Collection[Prompt], documents: Sequence[Document]
) -> Iterator[tuple[Prompt, Document, int, int]]:
    """Yield prompts with the first document that holds them, and where: half-open, in code points.

    What the engine puts before a prompt, such as a BOS token, is no text of a document.
    """
    starts = sorted(set(context.engine.prompt_starts.values()), key=len, reverse=True)
    sought: dict[Prompt, bytes] = {}
    for prompt in prompts:
        start = next((s for s in starts if prompt[: len(s)] == s), ())
        if text := prompt[len(start) :]:
            sought[prompt] = _bytes(text)
    for part in document_parts(documents):
        for document, tokens in zip(
            part, context.engine.tokenize([one.text for one in part]), strict=True
        ):
            ids = _bytes(tokens.ids)
            for prompt, own in [*sought.items()]:
                if (first := _index(ids, own)) is not None:
                    last = first + len(own) // _WIDTH - 1
                    yield prompt, document, tokens.offsets[first][0], tokens.offsets[last][1]
                    del sought[prompt]


_WIDTH = array("q").itemsize


def _bytes(ids: Sequence[int]) -> bytes:
    return array("q", ids).tobytes()


def _index(ids: bytes, sought: bytes) -> int | None:
    """Return at which token `sought` begins in `ids`; None if it does not occur."""
    at = ids.find(sought)
    while at >= 0 and at % _WIDTH:
        at = ids.find(sought, at + 1)
    return None if at < 0 else at // _WIDTH


def _harmless_words(documents: Sequence[Document], victim: Sequence[Document]) -> set[str]:
    counts = Counter(word for one in documents for word in set(_words(one.text)))
    personal = {
        word for one in (*documents, *victim) for text, _ in one.strings() for word in _words(text)
    }
    return {word for word, n in counts.items() if n >= COMMON and word.isalpha()} - personal


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _mask(document: Document, begin: int, end: int, words: Collection[str]) -> str:
    """Return the end of a document's text from `begin` to `end`, masked."""
    shown, at = "", begin
    for span in sorted(document.pii or ()):
        if at < span.end and span.start < end:
            shown += f"{_gaps(document.text[at : span.start], words)}[{span.label}]"
            at = span.end
    shown = " ".join((shown + _gaps(document.text[at:end], words)).split())
    shown = re.sub(f"{GAP}(?: ?{GAP})+", GAP, shown)
    return shown if len(shown) <= SHOWN else f"{GAP} {shown[-SHOWN:].partition(' ')[2]}"


def _gaps(text: str, words: Collection[str]) -> str:
    """Return a text with a gap for each of its words that is not one of `words`."""
    return _WORD.sub(lambda match: match[0] if match[0].casefold() in words else GAP, text)
