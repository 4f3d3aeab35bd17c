"""Positive controls: strings that the model was trained on, to see whether the questions work.

They are the attacker's own strings and those of other members. If the questions of an attack do not
draw these, they would not have drawn the victim's either, and finding nothing says nothing.
"""

import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from fedaudit.api.engine import Engine
from fedaudit.api.plugin import AttackContext
from fedaudit.api.records import Document, PiiSpan
from fedaudit.metrics.document_frequency import absent_strings
from fedaudit.pii.normalized_search import fold

KNOWN = "known"
"""The value of scope.source for positive controls."""
MAX_KNOWN = 60
"""The most positive controls of a kind."""


@dataclass(frozen=True, slots=True)
class Place:
    """A string of personal data in a document."""

    document: Document
    span: PiiSpan


@dataclass(frozen=True, kw_only=True)
class PositiveControls:
    """Strings that the model was trained on and that neither victim nor controls have."""

    labels: Mapping[str, str] = field(default_factory=dict)
    owners: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """For each of the attacker's own strings, the groups of its records that hold it."""
    places: Mapping[str, Place] = field(default_factory=dict)
    """Where each string stands, in the attacker's or a member's records."""
    records: Sequence[Document] = field(default=(), compare=False)
    """The attacker's records."""
    engine: Engine | None = field(default=None, compare=False)

    def counts(self, prompt: Sequence[int], string: str) -> bool:
        """Tell whether an answer to `prompt` may count for `string`.

        A prompt cut from a record about the same person, or from the same case, leads to the
        attacker's own string as it never leads to a victim's. So some other record must hold the
        prompt, too, or the prompt must be in none.
        """
        owners = self.owners.get(string)
        if not owners:
            return True
        asked = self._prompt_owners(prompt)
        return not asked or bool(asked - owners)

    def _prompt_owners(self, prompt: Sequence[int]) -> frozenset[str]:
        starts = sorted(self.engine.prompt_starts.values(), key=len) if self.engine else []
        start = next((s for s in reversed(starts) if tuple(prompt[: len(s)]) == tuple(s)), ())
        searched = _as_text(prompt[len(start) :])
        return frozenset(owner for owner, text in self._tokenized if searched in text)

    @cached_property
    def _tokenized(self) -> list[tuple[str, str]]:
        """The group of each record, and its tokens as characters, so that `in` searches them."""
        if self.engine is None:
            return []
        tokens = self.engine.tokenize([document.text for document in self.records])
        return [
            (owner_of(document), _as_text(t.ids))
            for document, t in zip(self.records, tokens, strict=True)
        ]


def _as_text(ids: Sequence[int]) -> str:
    return "".join(map(chr, ids))


def owner_of(document: Document) -> str:
    """Return the group of a document, or its id."""
    return document.group or document.id


def positive_controls(context: AttackContext, kinds: Collection[str]) -> PositiveControls:
    """Return at most MAX_KNOWN strings of each kind that the attacker or another member has.

    Strings that also occur in a text of the victim are left out.
    """
    if context.victim is None:
        return PositiveControls()
    own = [document for document in context.attacker if not document.is_prompt]
    places = places_of(own)
    for documents in context.members.values():
        places = places_of(documents) | places
    owners: dict[str, set[str]] = defaultdict(set)
    for document, string, _ in _spans(own):
        owners[string].add(owner_of(document))
    labels = {s: place.span.label for s, place in places.items() if place.span.label in kinds}
    forms = {string: fold(string) for string in labels}
    absent = absent_strings(
        set(filter(None, forms.values())), [fold(document.text) for document in context.victim]
    )
    by_kind: dict[str, list[str]] = defaultdict(list)
    for string in sorted(labels):
        if forms[string] in absent:
            by_kind[labels[string]].append(string)
    chosen = [
        string
        for kind, strings in sorted(by_kind.items())
        for string in sorted(
            random.Random(f"known {context.seed} {kind}").sample(
                strings, min(MAX_KNOWN, len(strings))
            )
        )
    ]
    return PositiveControls(
        labels={string: labels[string] for string in chosen},
        owners={string: frozenset(owners[string]) for string in chosen if string in owners},
        places={string: places[string] for string in chosen},
        records=own,
        engine=context.engine,
    )


def _spans(documents: Iterable[Document]) -> Iterable[tuple[Document, str, PiiSpan]]:
    for document in sorted(documents, key=lambda document: (document.text, document.id)):
        for span in document.pii or ():
            if string := document.text[span.start : span.end].strip():
                yield document, string, span


def places_of(documents: Iterable[Document]) -> dict[str, Place]:
    """Return one place of each string, the same one in whatever order the documents are."""
    places: dict[str, Place] = {}
    for document, string, span in _spans(documents):
        places.setdefault(string, Place(document, span))
    return places
