"""The documents from which the attacker's own prompts and strings come.

A model that learnt a document says its PII more readily after that document's own prefix than after
other prompts. Other members' strings come out after foreign prompts only, so the attacker must
compare them with its own strings after prompts of other documents.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence

from fedaudit.api.plugin import AttackContext
from fedaudit.api.records import Document

Prompt = tuple[int, ...]


class AttackerTexts:
    """The attacker's documents, searched for strings and for prompts."""

    def __init__(self, context: AttackContext) -> None:
        self._documents = context.attacker
        begin, engine = context.beginning, context.engine
        self._beginnings = {engine.prompt_starts[name] for name in (begin.start, begin.middle)}
        tokens = engine.tokenize([document.text for document in context.attacker])
        self._before = [
            (_family(index, document), tuple(encoding.ids[:end]))
            for index, (document, encoding) in enumerate(zip(context.attacker, tokens, strict=True))
            for end in sorted(_prefix_lengths(document, encoding.offsets))
        ]

    def families_with_string(self, string: str) -> frozenset[str]:
        """Return the families of documents that contain `string`.

        A family is a `group` of documents, or a single document without a group.
        """
        return frozenset(
            _family(index, document)
            for index, document in enumerate(self._documents)
            if string in document.text
        )

    def families_by_prompt(self, prompts: Collection[Prompt]) -> dict[Prompt, frozenset[str]]:
        """Return, for each prompt, the families of documents in which it precedes PII."""
        bare: dict[Prompt, set[Prompt]] = defaultdict(set)
        for prompt in prompts:
            for beginning in self._beginnings:
                if prompt[: len(beginning)] == beginning:
                    bare[prompt[len(beginning) :]].add(prompt)
        lengths = sorted({len(tokens) for tokens in bare} - {0})
        families: dict[Prompt, set[str]] = defaultdict(set)
        for family, before in self._before:
            for length in lengths:
                for prompt in bare.get(before[-length:], ()) if length <= len(before) else ():
                    families[prompt].add(family)
        return {prompt: frozenset(families[prompt]) for prompt in prompts}


def foreign_prompts(
    prompts: Collection[Prompt], standing: dict[Prompt, frozenset[str]], home: frozenset[str]
) -> list[Prompt]:
    """Return the sorted prompts that occur in a document of a family outside `home`."""
    return sorted(prompt for prompt in prompts if standing[prompt] - home)


def _family(index: int, document: Document) -> str:
    return f"group {document.group}" if document.group else f"document {index}"


def _prefix_lengths(document: Document, offsets: Sequence[tuple[int, int]]) -> set[int]:
    """Return the number of tokens before each PII span; for a ready-made prompt, all tokens."""
    if document.is_prompt:
        return {len(offsets)}
    starts = {span.start for span in document.pii or ()}
    return {
        next((i for i, (_, end) in enumerate(offsets) if end > start), len(offsets))
        for start in starts
    }
